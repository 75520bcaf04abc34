import DOMPurify from "dompurify";
import { Marked } from "marked";
import { useMemo } from "preact/hooks";
import { html } from "../core/html.js";
import { LongText } from "./long-text.js";

// Text of models and people as Markdown. marked makes markup, and DOMPurify keeps a short list of harmless elements of it. The page's policy
// accepts markup from DOMPurify only.

/** Longer texts are shown as they are: a browser would need seconds to lay them out. */
const charsMax = 60_000;

const allowed = {
  ALLOWED_TAGS: [
    ...["p", "br", "hr", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "a"],
    ...["h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"],
  ],
  ALLOWED_ATTR: ["href", "title", "start", "align", "target", "rel"],
  ADD_URI_SAFE_ATTR: ["start", "align", "target", "rel"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_TRUSTED_TYPE: true,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  // Both may scroll sideways, which a keyboard must reach.
  if (node.tagName === "PRE" || node.tagName === "TABLE") node.setAttribute("tabindex", "0");
  if (node.tagName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow");
});

const markdown = new Marked({ gfm: true, breaks: true, async: false });
let level = 2;
markdown.use({
  renderer: {
    // Headings continue the outline of the page without a gap.
    heading({ tokens, depth }) {
      level = Math.min(depth + 2, level + 1, 6);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>`;
    },
    // Markup in the text is shown as text.
    html({ text }) {
      return escaped(text);
    },
    // An image of another server would tell it who reads the page, so it is a link.
    image({ href, text }) {
      return `<a href="${escaped(href)}">${escaped(text || href)}</a>`;
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

/** A text as Markdown. */
export function Markdown({ text }) {
  const safe = useMemo(() => {
    if (text.length > charsMax) return null;
    level = 2;
    return DOMPurify.sanitize(markdown.parse(text), allowed);
  }, [text]);
  if (safe === null) return html`<${LongText} text=${text} />`;
  return html`<div class="markdown" dir="auto" dangerouslySetInnerHTML=${{ __html: safe }}></div>`;
}

function escaped(text) {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
