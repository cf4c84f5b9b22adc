//! The runbook as a page: docs/runbook.md, which is inside the binary, so that an alert links to what can be opened.
//!
//! It is written in a small part of Markdown, and only that is read: headings, paragraphs, lists, fenced code, `code`,
//! **bold** and links. Links to other files of the repository are told, not linked: they are not served here.

use std::sync::LazyLock;

/// Where it is served.
pub const PATH: &str = "/runbook";

const TEXT: &str = include_str!("../../../docs/runbook.md");

/// The page.
pub(crate) static PAGE: LazyLock<String> = LazyLock::new(|| page(TEXT));

/// The link to a section, on the process that serves it.
///
/// ```
/// assert_eq!(bloomgate_http::runbook::path("over-capacity"), "/runbook#over-capacity");
/// ```
#[must_use]
pub fn path(section: &str) -> String {
    format!("{PATH}#{section}")
}

/// Whether there is such a section.
#[must_use]
pub fn has(section: &str) -> bool {
    headings(TEXT).any(|heading| anchor(heading) == section)
}

fn headings(markdown: &str) -> impl Iterator<Item = &str> {
    markdown.lines().filter_map(|line| line.strip_prefix("## "))
}

/// A heading as a link has it, as on GitHub.
fn anchor(heading: &str) -> String {
    let letters = heading.to_lowercase().replace(' ', "-");
    letters.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect()
}

fn page(markdown: &str) -> String {
    let sections: String = headings(markdown)
        .map(|heading| format!("<a class=\"to\" href=\"#{}\">{}</a>\n", anchor(heading), inline(heading)))
        .collect();
    let body = blocks(markdown);
    format!(
        r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Runbook · Bloomgate</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="style.css">
<script src="theme.js"></script>
</head>
<body class="reading">
<a class="skip" href="#main">Skip to the page</a>
<header class="top"><a class="brand" href="./"><img src="icon.svg" alt="" width="28" height="28"><span>Bloomgate</span></a></header>
<nav aria-label="Sections">
{sections}</nav>
<main id="main" tabindex="-1">
<article class="prose">
{body}</article>
</main>
</body>
</html>
"##
    )
}

/// What a line belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Paragraph,
    Item,
    Code,
}

fn blocks(markdown: &str) -> String {
    let mut html = String::new();
    let mut open: Option<(Block, String)> = None;
    let mut in_list = false;
    for line in markdown.lines() {
        if let Some((Block::Code, text)) = &mut open {
            match line.starts_with("```") {
                true => close(&mut html, &mut open, &mut in_list),
                false => text.extend([line, "\n"]),
            }
            continue;
        }
        let heading = ["# ", "## "].iter().zip(1..).find_map(|(mark, level)| Some((line.strip_prefix(mark)?, level)));
        if let Some((heading, level)) = heading {
            close(&mut html, &mut open, &mut in_list);
            end_list(&mut html, &mut in_list);
            let text = inline(heading);
            html.push_str(&match level {
                1 => format!("<h1>{text}</h1>\n"),
                _ => format!("<h2 id=\"{}\">{text}</h2>\n", anchor(heading)),
            });
        } else if line.starts_with("```") {
            close(&mut html, &mut open, &mut in_list);
            end_list(&mut html, &mut in_list);
            open = Some((Block::Code, String::new()));
        } else if let Some(item) = line.strip_prefix("- ") {
            close(&mut html, &mut open, &mut in_list);
            open = Some((Block::Item, item.to_owned()));
        } else if line.trim().is_empty() {
            close(&mut html, &mut open, &mut in_list);
            end_list(&mut html, &mut in_list);
        } else {
            let (_, text) = open.get_or_insert((Block::Paragraph, String::new()));
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(line.trim_start());
        }
    }
    close(&mut html, &mut open, &mut in_list);
    end_list(&mut html, &mut in_list);
    html
}

/// Writes what is open, and what it stands in.
fn close(html: &mut String, open: &mut Option<(Block, String)>, in_list: &mut bool) {
    let Some((block, text)) = open.take() else { return };
    if block == Block::Item && !std::mem::replace(in_list, true) {
        html.push_str("<ul>\n");
    }
    html.push_str(&match block {
        Block::Paragraph => format!("<p>{}</p>\n", inline(&text)),
        Block::Item => format!("<li>{}</li>\n", inline(&text)),
        Block::Code => format!("<pre><code>{}</code></pre>\n", escaped(&text)),
    });
}

fn end_list(html: &mut String, in_list: &mut bool) {
    if std::mem::take(in_list) {
        html.push_str("</ul>\n");
    }
}

/// What stands within a line. A mark without its end is a letter like any other.
fn inline(text: &str) -> String {
    let mut html = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '[']) {
        let (before, from) = rest.split_at(at);
        html.push_str(&escaped(before));
        let marked = if let Some((code, after)) = between(from, "`", "`") {
            Some((format!("<code>{}</code>", escaped(code)), after))
        } else if let Some((strong, after)) = between(from, "**", "**") {
            Some((format!("<strong>{}</strong>", inline(strong)), after))
        } else {
            between(from, "[", "](").and_then(|(name, after)| {
                let (target, after) = after.split_once(')')?;
                Some((link(name, target), after))
            })
        };
        match marked {
            Some((written, after)) => {
                html.push_str(&written);
                rest = after;
            }
            None => {
                html.push_str(&escaped(&from[..1]));
                rest = &from[1..];
            }
        }
    }
    html + &escaped(rest)
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<(&'a str, &'a str)> {
    text.strip_prefix(begin)?.split_once(end).filter(|(inner, _)| !inner.is_empty())
}

fn link(name: &str, target: &str) -> String {
    if target.starts_with('#') {
        return format!("<a href=\"{}\">{}</a>", escaped(target), inline(name));
    }
    // As seen from the root of the repository; the runbook is in docs/.
    let path = target.strip_prefix("../").map_or_else(|| format!("docs/{target}"), str::to_owned);
    match name == path {
        true => format!("<code>{}</code>", escaped(&path)),
        false => format!("{} (<code>{}</code>)", inline(name), escaped(&path)),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_markdown_that_is_used_is_written_as_html() {
        for (markdown, html) in [
            ("# A & B", "<h1>A &amp; B</h1>\n"),
            ("## Rebuild late or failed", "<h2 id=\"rebuild-late-or-failed\">Rebuild late or failed</h2>\n"),
            ("one\ntwo\n\nthree", "<p>one\ntwo</p>\n<p>three</p>\n"),
            ("**Fix.** `a < b` *", "<p><strong>Fix.</strong> <code>a &lt; b</code> *</p>\n"),
            ("- one\n  more\n- two\n\nend", "<ul>\n<li>one\nmore</li>\n<li>two</li>\n</ul>\n<p>end</p>\n"),
            ("```sh\na | b\n\n# c\n```", "<pre><code>a | b\n\n# c\n</code></pre>\n"),
            ("[there](#poisoning)", "<p><a href=\"#poisoning\">there</a></p>\n"),
            ("[the rules](../packaging/alerts.yml)", "<p>the rules (<code>packaging/alerts.yml</code>)</p>\n"),
            ("[docs/security.md](security.md)", "<p><code>docs/security.md</code></p>\n"),
            ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n"),
            ("a [b", "<p>a [b</p>\n"),
            ("`a", "<p>`a</p>\n"),
        ] {
            assert_eq!(blocks(markdown), html, "{markdown}");
        }
    }

    #[test]
    fn every_section_of_the_runbook_can_be_linked_to() {
        let page = &*PAGE;
        let sections: Vec<String> = headings(TEXT).map(anchor).collect();
        assert!(sections.len() >= 11, "{sections:?}");
        for section in &sections {
            assert_eq!(page.matches(&format!("<h2 id=\"{section}\">")).count(), 1, "{section}");
            assert!(page.contains(&format!("href=\"#{section}\"")) && has(section), "{section}");
        }
        // Every link within leads somewhere.
        for target in page.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(target == "main" || has(target), "{target}");
        }
        assert_eq!(page.matches("<script").count(), page.matches("<script src=\"theme.js\"></script>").count());
        assert!(!page.contains("<style") && !page.contains(" style="));
        assert!(!has("no-such-section"));
        // Nothing of the marks is left, so nothing was written that is not read.
        let pieces: Vec<&str> = page.split("code>").collect();
        assert!(pieces.len() > 40);
        // Every other one is code.
        for text in pieces.into_iter().step_by(2) {
            for mark in ["`", "**", "](", "\n|", "\n### ", "\n1. "] {
                assert!(!text.contains(mark), "{mark} in {text}");
            }
        }
    }
}
