// Server-sent events from a byte stream, so that a token can be sent with the request (EventSource sends no headers).

/** Takes text as it comes and gives whole events to `tell`: {event, data, id}. The form is that of the HTML standard. */
export function parser(tell) {
  let [rest, event, id, data] = ["", "", null, []];
  let skipLineFeed = false;
  const line = (text) => {
    if (text === "") {
      if (data.length > 0) tell({ event: event || "message", data: data.join("\n"), id });
      [event, data] = ["", []];
      return;
    }
    if (text.startsWith(":")) return;
    const colon = text.indexOf(":");
    const field = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(colon + 1).replace(/^ /, "");
    if (field === "data") data.push(value);
    else if (field === "event") event = value;
    else if (field === "id" && !value.includes("\0")) id = value;
  };
  return (text) => {
    rest += text;
    for (;;) {
      if (skipLineFeed && rest.startsWith("\n")) rest = rest.slice(1);
      if (rest !== "") skipLineFeed = false;
      const end = rest.search(/[\r\n]/);
      if (end < 0) return;
      const whole = rest.slice(0, end);
      skipLineFeed = rest[end] === "\r";
      rest = rest.slice(end + 1);
      line(whole);
    }
  };
}

/** Seconds to wait before the next try: 1, 2, 4 … at most 30, and a little chance so that not all come at once. */
export function patience(failures, chance = Math.random()) {
  return Math.min(30, 2 ** Math.min(failures, 5)) * (0.75 + 0.5 * chance);
}
