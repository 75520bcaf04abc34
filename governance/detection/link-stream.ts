// The links and images of a reply after the model has read untrusted text (decision 185): a URL may carry what the conversation says to a
// foreign host. A remote image becomes the name of its host. A link whose query or fragment the model has not read loses its URL.

/** The hosts and URLs that a reply may show. */
export interface LinkRules {
  /** True if images of this host may be shown. */
  showsImagesOf(host: string): boolean;
  /** True if a text that the model was shown contains the URL. */
  hasRead(url: string): boolean;
}

/** Max characters of a URL; a longer one is cut there. */
const urlChars = 2_048;
/** Max characters of an image or an element with its URL. */
const elementChars = 3_000;
/** Max characters before the colon of a scheme. */
const schemeChars = 20;

/** The decision about the text at a position. */
type Step =
  | { readonly end: number; readonly text: string; readonly isChanged: boolean }
  /** Later text decides. */
  | "held"
  /** Nothing begins here. */
  | null;

/** Changes the links and images of a text that arrives in pieces. The result is the same for every division into pieces. */
export class LinkStream {
  readonly #rules: LinkRules;
  #text = "";
  /** The character before the text. */
  #before = "";
  #changes = 0;

  constructor(rules: LinkRules) {
    this.#rules = rules;
  }

  /** Number of changed links and images. */
  get changes(): number {
    return this.#changes;
  }

  /** Returns the text that is decided now, possibly none. */
  take(piece: string): string {
    this.#text += piece;
    return this.#decide(false);
  }

  /** Returns the rest at the end of the text. */
  end(): string {
    return this.#decide(true);
  }

  #decide(isLast: boolean): string {
    const text = this.#text;
    let shown = "";
    let at = 0;
    while (at < text.length) {
      const step = this.#step(text, at, isLast);
      if (step === "held") break;
      if (step === null) {
        this.#before = text[at] as string;
        shown += this.#before;
        at++;
        continue;
      }
      shown += step.text;
      if (step.isChanged) this.#changes++;
      this.#before = text[step.end - 1] as string;
      at = step.end;
    }
    this.#text = text.slice(at);
    return shown;
  }

  #step(text: string, at: number, isLast: boolean): Step {
    const char = text[at] as string;
    const isNear = (chars: number): boolean => !isLast && text.length - at < chars;
    if (char === "!") return this.#image(text, at, isNear);
    if (char === "]") return this.#destination(text, at, isNear);
    if (char === "<") return this.#element(text, at, isNear);
    if (char === "/") return this.#withoutScheme(text, at, isNear);
    // Some readers find an address of the web in the middle of a word.
    const mayBegin = char === "h" || char === "H" || (letter.test(char) && !schemeChar.test(this.#before));
    return mayBegin ? this.#url(text, at, isNear) : null;
  }

  /** `![alt](url "title")` */
  #image(text: string, at: number, isNear: IsNear): Step {
    if (text.length === at + 1) return isNear(2) ? "held" : null;
    if (text[at + 1] !== "[") return null;
    image.lastIndex = at;
    const found = image.exec(text);
    if (found === null) {
      noImage.lastIndex = at;
      return isNear(elementChars) && !noImage.test(text) ? "held" : null;
    }
    const [whole, alt = "", url = ""] = found;
    const end = at + whole.length;
    const host = remoteHost(url);
    if (host === null || this.#rules.showsImagesOf(host)) return { end, text: whole, isChanged: false };
    return { end, text: alt === "" ? host : `${alt} (${host})`, isChanged: true };
  }

  /** `](url)` of a link, and `]: url` of a reference, which may be an image. */
  #destination(text: string, at: number, isNear: IsNear): Step {
    if (text.length === at + 1) return isNear(2) ? "held" : null;
    const pattern = text[at + 1] === "(" ? inlineUrl : text[at + 1] === ":" ? referenceUrl : null;
    if (pattern === null) return null;
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found === null) return null;
    const [whole, before = "", url = ""] = found;
    const end = at + whole.length;
    if (end === text.length && isNear(urlChars + 16)) return "held";
    const host = remoteHost(url);
    const isAllowed =
      host === null ||
      (pattern === inlineUrl ? !this.#leaks(url) : this.#rules.showsImagesOf(host) && !this.#leaks(url));
    return isAllowed
      ? { end, text: whole, isChanged: false }
      : { end, text: before.replace(/<$/, ""), isChanged: true };
  }

  /** An element of HTML with a URL. */
  #element(text: string, at: number, isNear: IsNear): Step {
    if (text.length === at + 1) return isNear(2) ? "held" : null;
    if (!letter.test(text[at + 1] as string)) return null;
    const close = text.indexOf(">", at);
    if (close < 0) return isNear(elementChars) ? "held" : null;
    if (close - at > elementChars) return null;
    const whole = text.slice(at, close + 1);
    const [, name = ""] = /^<([a-z][a-z0-9]{0,20})(?=[\s/>])/i.exec(whole) ?? [];
    // An autolink is a URL in angle brackets, which is decided at its first letter.
    if (name === "") return null;
    const urls = urlsOf(whole);
    const isLink = name.toLowerCase() === "a";
    const hosts = urls.flatMap((url) => remoteHost(url) || []);
    const isAllowed = isLink
      ? urls.every((url) => remoteHost(url) === null || !this.#leaks(url))
      : hosts.every((host) => this.#rules.showsImagesOf(host));
    if (isAllowed) return { end: close + 1, text: whole, isChanged: false };
    return { end: close + 1, text: isLink ? "<a>" : (hosts[0] ?? ""), isChanged: true };
  }

  /** `//host/path` where a URL may stand. */
  #withoutScheme(text: string, at: number, isNear: IsNear): Step {
    if (!/["'(<=\s]/.test(this.#before || " ")) return null;
    if (text.length === at + 1) return isNear(2) ? "held" : null;
    return text[at + 1] === "/" ? this.#plain(text, at, isNear) : null;
  }

  /** A URL with a scheme. */
  #url(text: string, at: number, isNear: IsNear): Step {
    scheme.lastIndex = at;
    const [name = ""] = scheme.exec(text) ?? [];
    const next = at + name.length;
    if (next === text.length) return isNear(schemeChars) ? "held" : null;
    if (text[next] !== ":" || name.length > schemeChars) return null;
    const isMail = /^(?:mailto|sms|smsto|tel|whatsapp|tg)$/i.test(name);
    if (!isMail && text.length < next + 3 && isNear(schemeChars + 4)) return "held";
    return isMail || text.startsWith("//", next + 1) ? this.#plain(text, at, isNear) : null;
  }

  /** A URL in plain text. */
  #plain(text: string, at: number, isNear: IsNear): Step {
    plainUrl.lastIndex = at;
    const [whole = ""] = plainUrl.exec(text) ?? [];
    if (at + whole.length === text.length && isNear(urlChars)) return "held";
    const url = whole.replace(/[.,;:!?)\]}*_~'"]+$/, "");
    if (url === "") return null;
    const end = at + url.length;
    if (!this.#leaks(url)) return { end, text: url, isChanged: false };
    return { end, text: remoteHost(url) || "[link]", isChanged: true };
  }

  /** True if the URL has a query, a fragment or a name of a user that the model has not read. */
  #leaks(url: string): boolean {
    const parsed = parse(url);
    if (parsed === null) return false;
    const { search, hash, username, password } = parsed;
    return search + hash + username + password !== "" && !this.#rules.hasRead(url);
  }
}

type IsNear = (chars: number) => boolean;

const letter = /[a-z]/i;
const schemeChar = /[a-z0-9+.-]/i;
const scheme = /[a-z][a-z0-9+.-]{0,20}/iy;
const image = /!\[([^\]]{0,512})\]\(\s{0,8}<?([^\s)<>]{1,2048})>?[^)\n]{0,256}\)/y;
/** The beginning of an image that no later text completes. */
const noImage = /!\[(?:[^\]]{513}|[^\]]{0,512}\](?:[^(]|\([^)\n]{0,2400}\n))/y;
const inlineUrl = /(\]\(\s{0,8}<?)([^\s)<>]{0,2048})/y;
const referenceUrl = /(\]:\s{0,8}<?)([^\s<>]{0,2048})/y;
const plainUrl = /[^\s<>"`]{0,2048}/y;

/** Returns the host of a URL; null if it leads to no other host, and empty if it has none, as that of an e-mail. */
function remoteHost(url: string): string | null {
  return parse(url)?.hostname ?? null;
}

const base = "https://none.invalid/";

/** Null for a URL without a scheme and a host, and for one that sends nothing. */
function parse(url: string): URL | null {
  const plain = decoded(url);
  const parsed = URL.parse(plain, base);
  if (parsed === null || parsed.hostname === "none.invalid") return null;
  return ["data:", "about:", "blob:", "cid:"].includes(parsed.protocol) ? null : parsed;
}

/** Markdown and HTML read character references and escapes in URLs. */
function decoded(url: string): string {
  return url
    .replace(/&#x([0-9a-f]{1,6});?/gi, (_, hex: string) => charOf(Number.parseInt(hex, 16)))
    .replace(/&#([0-9]{1,7});?/g, (_, code: string) => charOf(Number(code)))
    .replace(/&(?:sol|colon|quest|num|amp|period|Tab|NewLine);/g, (name) => named[name] ?? "")
    .replace(/\\([!-/:-@[-`{-~])/g, "$1");
}

const named: Readonly<Record<string, string>> = {
  "&sol;": "/",
  "&colon;": ":",
  "&quest;": "?",
  "&num;": "#",
  "&amp;": "&",
  "&period;": ".",
  "&Tab;": "",
  "&NewLine;": "",
};

function charOf(code: number): string {
  return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "";
}

/** Returns the URLs in the attributes of an element. */
function urlsOf(element: string): string[] {
  const values = element.matchAll(/=\s{0,8}(?:"([^"]{0,2500})"|'([^']{0,2500})'|([^\s>"']{1,2500}))/g);
  return [...values].flatMap(([, double, single, bare]) => {
    const value = double ?? single ?? bare ?? "";
    // A list of images, and an address in a style.
    const parts = value.split(/[\s,]+|url\(["']?|["']?\)/i);
    return parts.filter((part) => remoteHost(part) !== null);
  });
}
