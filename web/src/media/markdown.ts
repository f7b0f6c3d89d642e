/** Markdown of others as HTML that may be put into the page. markdown-it makes no markup of the text's own HTML; DOMPurify
 * then keeps nothing that could act or load. */
import DOMPurify from "dompurify";
import MarkdownIt from "markdown-it";

const ALIGNED = /^text-align:(left|center|right)$/;

const markdown = new MarkdownIt({ html: false, breaks: true }).disable(["image"]);
/** Links lead to web pages only; a person decides to follow them. */
markdown.validateLink = (address) => /^https?:\/\//i.test(address);

const { rules } = markdown.renderer;

rules.link_open = (tokens, at, options, _env, self) => {
  tokens[at]!.attrSet("target", "_blank");
  tokens[at]!.attrSet("rel", "noopener noreferrer");
  return self.renderToken(tokens, at, options);
};

// A heading of a text is none of the page: one that reads the page by its headings would lose its way.
rules.heading_open = (tokens, at) =>
  `<p class="heading${Number(tokens[at]!.tag.slice(1)) < 3 ? " large" : ""}">`;
rules.heading_close = () => "</p>\n";

// What scrolls must be reached by keyboard.
for (const kind of ["fence", "code_block"] as const) {
  rules[kind] = (tokens, at) => `<pre tabindex="0">${markdown.utils.escapeHtml(tokens[at]!.content)}</pre>\n`;
}

// The page's policy forbids inline styles.
for (const kind of ["th_open", "td_open"] as const) {
  rules[kind] = (tokens, at, options, _env, self) => {
    const token = tokens[at]!;
    const aligned = ALIGNED.exec(String(token.attrGet("style") ?? ""));
    token.attrs = aligned ? [["class", aligned[1]!]] : null;
    return self.renderToken(tokens, at, options);
  };
}

const KEPT = {
  ALLOWED_TAGS: [
    ...["a", "blockquote", "br", "code", "em", "hr", "li", "ol", "p", "pre", "s", "strong"],
    ...["table", "tbody", "td", "th", "thead", "tr", "ul"],
  ],
  ALLOWED_ATTR: ["class", "href", "rel", "start", "tabindex", "target"],
  ALLOWED_URI_REGEXP: /^https?:\/\//i,
  // Held to the address rule otherwise, and dropped.
  ADD_URI_SAFE_ATTR: ["rel", "start", "tabindex", "target"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};

/** HTML of a Markdown text, before it is made safe. */
export function rendered(text: string): string {
  return markdown.render(text);
}

/** HTML of a Markdown text that is safe to put into the page. Needs a browser. */
export function safeHtml(text: string): string {
  return DOMPurify.sanitize(rendered(text), KEPT);
}
