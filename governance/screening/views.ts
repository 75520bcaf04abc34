// The readings of a text. A model also reads instructions that are hidden from people, or split.

/** A reading of a text in lower case, with single blanks, and how it differs from the plain one. */
export interface View {
  readonly name: "plain" | "joined" | "digits" | "spaced" | "decoded" | "tags";
  readonly text: string;
}

/** All readings of a text, and the hiding that it shows. */
export interface Views {
  readonly views: readonly View[];
  /** Characters of invisible tags that spell a text. */
  readonly tagChars: number;
  /** Runs of invisible characters inside words. */
  readonly brokenWords: number;
  /** Characters that change the direction of text, beyond those that balance. */
  readonly overrides: number;
  /** Words that mix Latin letters with letters that look like them. */
  readonly mixedWords: number;
}

/** Characters that no reader sees; others are marks, which are removed too. */
const invisible = /[\p{Cf}\u115f\u1160]/gu;
const brokenWord = /\p{L}[\u00ad\u200b\u2060\u2062-\u2064\ufeff]{1,8}\p{L}/gu;
const override = /[\u202d\u202e]/gu;
/** Tags, with the flag that may precede them: an emoji of a flag spells its region with them. */
const tags = /\u{1f3f4}[\u{e0020}-\u{e007e}]{1,6}\u{e007f}|[\u{e0000}-\u{e007f}]+/gu;
const marks = /\p{M}/gu;
/** Marks of emphasis, which a model ignores. */
const emphasis = /[*`~]/g;
const element = /<[!/]?[a-z][^<>]{0,200}>|<!--|-->/gi;
/** Ends of two strings that code or data puts together. */
const seam = /["'\u201d\u2019][\s,;+.&\\]{0,8}["'\u201c\u2018]/g;
const jsonSeam = /["'][\s,]{0,8}["'][a-z_]{1,12}["']\s{0,4}:\s{0,4}["']/g;

/** Letters of other scripts that look like Latin ones. */
const lookalikes: ReadonlyMap<string, string> = new Map(
  Object.entries({
    а: "a",
    в: "b",
    с: "c",
    ԁ: "d",
    е: "e",
    һ: "h",
    і: "i",
    ј: "j",
    к: "k",
    ӏ: "l",
    м: "m",
    н: "h",
    о: "o",
    р: "p",
    ѕ: "s",
    т: "t",
    у: "y",
    х: "x",
    ѵ: "v",
    ԝ: "w",
    ԛ: "q",
    г: "r",
    п: "n",
    и: "u",
    я: "r",
    α: "a",
    β: "b",
    ε: "e",
    η: "n",
    ι: "i",
    κ: "k",
    μ: "u",
    ν: "v",
    ο: "o",
    ρ: "p",
    σ: "o",
    τ: "t",
    υ: "u",
    χ: "x",
    γ: "y",
    ω: "w",
    ı: "i",
    ɡ: "g",
    ɑ: "a",
    ɩ: "i",
    ո: "n",
    օ: "o",
    ս: "u",
    ց: "g",
    հ: "h",
    ʀ: "r",
    ɴ: "n",
    ʟ: "l",
  }),
);
/** Small capitals, which no language writes words with. */
const smallCapitals = new Map(
  Array.from(
    "\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d\u0274\u1d0f\u1d18\u0280\ua731\u1d1b\u1d1c\u1d20\u1d21\u028f\u1d22",
  ).map((char, at) => [char, "abcdefghijklmnoprstuvwyz"[at] as string]),
);
const smallCapital = /[\u0262\u026a\u0274\u0280\u028f\u0299\u029c\u029f\u1d00-\u1d22\ua730\ua731]/g;
const mixedWord =
  /(?=[\p{L}]{0,40}[a-z])(?=[\p{L}]{0,40}[\u0250-\u02af\u0370-\u03ff\u0400-\u052f\u0531-\u058f])\p{L}{2,40}/gu;
const otherLetter = /[\u0131\u0250-\u02af\u0370-\u03ff\u0400-\u052f\u0531-\u058f]/gu;

const digitLetters: Readonly<Record<string, string>> = {
  "0": "o",
  "1": "i",
  "3": "e",
  "4": "a",
  "5": "s",
  "7": "t",
  "8": "b",
  "@": "a",
  $: "s",
  "!": "i",
  "|": "l",
};
const digitWord = /(?=[0-9@$!|]{0,20}[a-z])[a-z0-9@$!|]{0,20}[013457@$!|][a-z0-9@$!|]{0,20}/g;

/** Letters with one separator between all of them. */
const spacedRun = /(?:^|[^\p{L}])(\p{L}(?:[ ._\-/+]{1,3}\p{L}){7,120})(?=$|[^\p{L}])/gu;

const base64Run = /[A-Za-z0-9+/_-]{20,}(?:\s{1,2}[A-Za-z0-9+/_-]{20,}){0,200}={0,2}/g;
const hexRun = /(?:0x)?(?:[0-9a-f]{2}[\s:]?){16,2000}/gi;
const percentRun = /(?:[^\s%]{0,3}%[0-9a-f]{2}){4,2000}[^\s%]{0,40}/gi;
const entity = /&#(?:x([0-9a-f]{1,6})|([0-9]{1,7}));/gi;
const escaped = /\\(?:u\{?([0-9a-f]{4,6})\}?|x([0-9a-f]{2}))/gi;
/** Max characters that are decoded of one text. */
const decodedMax = 1_000_000;
/** An encoded text may be encoded again. */
const depthMax = 2;

/** Returns the readings of a text. The work is linear in its length. */
export function viewsOf(text: string): Views {
  const views: View[] = [];
  let tagChars = 0;
  let tagged = "";
  let visible = text;
  if (/[\u{e0000}-\u{e007f}]/u.test(text)) {
    visible = text.replace(tags, (run) => {
      if (run.startsWith("\u{1f3f4}")) return run;
      const spelled = Array.from(run, (char) => (char.codePointAt(0) as number) - 0xe0000);
      tagged += String.fromCharCode(...spelled.filter((code) => code >= 0x20 && code < 0x7f).slice(0, 10_000));
      tagChars += spelled.length;
      return "";
    });
  }
  const brokenWords = countOf(visible, brokenWord);
  const overrides = countOf(visible, override);
  const bare = unmarked(visible.normalize("NFKC").replace(invisible, ""));
  const { text: plain, mixedWords } = latin(bare);
  views.push({ name: "plain", text: squeezed(plain.replace(emphasis, "").replace(/_/g, " ")) });
  addView(views, "joined", joined(plain));
  addView(
    views,
    "digits",
    plain.replace(digitWord, (word) => word.replace(/[013457@$!|8]/g, (char) => digitLetters[char] ?? char)),
  );
  const spaced = Array.from(plain.matchAll(spacedRun), ([, run = ""]) => run.replace(/[^\p{L}]/gu, "")).join(" ");
  if (spaced !== "") views.push({ name: "spaced", text: spaced });
  const decoded = decodings(bare === visible ? visible : visible.normalize("NFKC").replace(invisible, ""), depthMax);
  if (decoded !== "") views.push({ name: "decoded", text: prepared(decoded) });
  if (tagged !== "") views.push({ name: "tags", text: prepared(tagged) });
  return { views, tagChars, brokenWords, overrides, mixedWords };
}

function prepared(text: string): string {
  return squeezed(latin(unmarked(text)).text.replace(emphasis, "").replace(/_/g, " "));
}

function addView(views: View[], name: View["name"], text: string): void {
  const reading = squeezed(text.replace(emphasis, "").replace(/_/g, " "));
  if (reading !== views[0]?.text) views.push({ name, text: reading });
}

/** Removes accents, and makes letters small. */
function unmarked(text: string): string {
  const isPlain = /^[\0-\x7f]*$/.test(text);
  return (isPlain ? text : text.normalize("NFD").replace(marks, "").normalize("NFC")).toLowerCase();
}

/** Replaces look-alikes in words that also have Latin letters: a word of another script alone is no disguise. */
function latin(text: string): { readonly text: string; readonly mixedWords: number } {
  const plain = text.replace(smallCapital, (char) => smallCapitals.get(char) ?? char);
  if (plain.search(otherLetter) < 0) return { text: plain, mixedWords: 0 };
  let mixedWords = 0;
  const replaced = plain.replace(mixedWord, (word) => {
    mixedWords++;
    return word.replace(otherLetter, (letter) => lookalikes.get(letter) ?? letter);
  });
  return { text: replaced, mixedWords };
}

/** Puts together what quotes, elements and line ends separate. */
function joined(text: string): string {
  return text
    .replace(/-\n\s{0,20}/g, "")
    .replace(jsonSeam, "")
    .replace(seam, "")
    .replace(element, "");
}

function squeezed(text: string): string {
  return text.replace(/\s+/g, " ");
}

function countOf(text: string, pattern: RegExp): number {
  let count = 0;
  for (const _ of text.matchAll(pattern)) count++;
  return count;
}

/** Returns the texts that are encoded in a text; empty for none. */
function decodings(text: string, depth: number): string {
  const found: string[] = [];
  let left = decodedMax;
  const add = (decoded: string): void => {
    if (left <= 0 || !isText(decoded)) return;
    left -= decoded.length;
    found.push(decoded);
    if (depth > 1) {
      const inner = decodings(decoded, depth - 1);
      if (inner !== "") found.push(inner);
    }
  };
  for (const [run] of text.matchAll(base64Run)) add(Buffer.from(run.replace(/\s/g, ""), "base64").toString("latin1"));
  for (const [run] of text.matchAll(hexRun)) add(Buffer.from(run.replace(/^0x|[\s:]/gi, ""), "hex").toString("latin1"));
  for (const [run] of text.matchAll(percentRun)) add(unpercented(run));
  if (/&#/.test(text)) add(text.replace(entity, (_, hex, decimal) => charOf(hex, decimal)));
  if (/\\[ux]/.test(text)) add(text.replace(escaped, (_, long, short) => charOf(long ?? short, undefined)));
  return found.join("\n");
}

function unpercented(run: string): string {
  return run
    .replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replace(/\+/g, " ");
}

function charOf(hex: string | undefined, decimal: string | undefined): string {
  const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
  return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff) ? String.fromCodePoint(code) : " ";
}

/** True if nearly all characters are those of a text, and some of them are blanks or letters. */
function isText(decoded: string): boolean {
  if (decoded.length < 12) return false;
  const sample = decoded.slice(0, 2_000);
  const readable = sample.replace(/[^\t\n\r\x20-\x7e]/g, "").length;
  return readable >= sample.length * 0.9 && /[a-z]{3}/i.test(sample);
}
