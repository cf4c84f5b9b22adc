// Runs before the first paint, so that a chosen theme does not flash. Storage may be forbidden: then the system decides.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("bloomgate-theme");
  } catch {}
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
