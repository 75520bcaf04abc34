import type { Detector } from "./detector.ts";
import { digitsOf, sticky } from "./sticky.ts";

// Detectors that need no library and no table of a country.

/** Suffixes of file names that are no top-level domains, so that icon@2x.png is no address. */
const fileSuffix =
  /\.(?:png|jpe?g|gif|svg|webp|avif|js|mjs|cjs|ts|tsx|jsx|css|html?|json|ya?ml|xml|md|txt|pdf|csv|tgz|gz)$/i;
/** A user name in a URL, as in https://user@host. */
const inUrl = /:\/\/[^\s/]*$/;

export const email: Detector = sticky({
  kind: "EMAIL",
  first: /[\p{L}\p{N}_]/u,
  after: /[\p{L}\p{N}_.%+'/-]/u,
  candidates: [
    /[\p{L}\p{N}_](?:[\p{L}\p{N}_.%+'-]{0,62}[\p{L}\p{N}_+])?@(?:[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,28}[\p{L}\p{N}])?\.){1,2}(?:[\p{L}\p{N}-]{2,20}\.)?\p{L}{2,16}(?![\p{L}\p{N}_])(?!-[\p{L}\p{N}])(?!:[\p{L}~/])/uy,
  ],
  open: /[\p{L}\p{N}_.%+'-]{1,64}(?:@[\p{L}\p{N}.:-]{0,66})?$/uy,
  valid: (address, before) =>
    !address.includes("..") && !address.includes(".@") && !fileSuffix.test(address) && !inUrl.test(before),
});

/** Digits of a card in one group, in groups of four, or as on American Express and Diners cards. */
const cardForms = [
  /\d{4}([ -])\d{4}\1\d{4}\1\d{4}\1\d{1,3}(?!\d)(?!-\d)/y,
  /\d{4}([ -])\d{4}\1\d{4}\1\d{4}(?!\d)(?!-\d)/y,
  /\d{4}([ -])\d{6}\1\d{4,5}(?!\d)(?!-\d)/y,
  /\d{13,19}(?![\d\p{L}_])(?![.-]\d)/uy,
];

export const card: Detector = sticky({
  kind: "CREDIT_CARD",
  first: /\d/,
  after: /[\p{L}\p{N}_.$€£#/-]/u,
  candidates: cardForms,
  open: /\d[\d -]{0,24}.?.?$/suy,
  valid(candidate) {
    const digits = digitsOf(candidate);
    return isIssued(digits) && passesLuhn(digits);
  },
});

/** The shape of phone numbers: with a country code, or as in North America. */
const plainPhone: Detector = sticky({
  kind: "PHONE",
  first: /[+(\d]/,
  after: /[\p{L}\p{N}_.,$€£#/=-]/u,
  candidates: [
    /\+[1-9]\d{0,2}(?:[ .\-/]?\(?\d{1,4}\)?){2,6}(?!\d)(?![.-]\d)/y,
    /(?:1[ .-])?(?:\([2-9]\d{2}\) ?|[2-9]\d{2}[ .-])[2-9]\d{2}[ .-]\d{4}(?!\d)(?![.-]\d)/y,
  ],
  open: /[+(]?[\d ().\-/]{0,60}.?.?$/suy,
  valid(candidate) {
    const { length } = digitsOf(candidate);
    return length >= 8 && length <= 15;
  },
});

/** The three patterns of a deployment without plugins/pii. */
export const commonDetectors: readonly Detector[] = [email, card, plainPhone];

/** True if a network issues card numbers with this beginning and length. */
function isIssued(digits: string): boolean {
  const { length } = digits;
  const two = Number(digits.slice(0, 2));
  const three = Number(digits.slice(0, 3));
  const four = Number(digits.slice(0, 4));
  if (digits.startsWith("4")) return length === 13 || length === 16 || length === 19;
  if ((two >= 51 && two <= 55) || (four >= 2221 && four <= 2720)) return length === 16;
  if (two === 34 || two === 37) return length === 15;
  if (four === 6011 || two === 65 || (three >= 644 && three <= 649) || two === 62) return length >= 16;
  if (four >= 3528 && four <= 3589) return length >= 16;
  if ((three >= 300 && three <= 305) || two === 36 || two === 38 || two === 39) return length >= 14;
  return [5018, 5020, 5038, 5893, 6304, 6759, 6761, 6762, 6763].includes(four) && length >= 13;
}

function passesLuhn(digits: string): boolean {
  let sum = 0;
  for (let at = digits.length - 1, isSecond = false; at >= 0; at--, isSecond = !isSecond) {
    const digit = Number(digits[at]);
    const twice = digit * 2;
    sum += isSecond ? (twice > 9 ? twice - 9 : twice) : digit;
  }
  return sum % 10 === 0 && /[1-9]/.test(digits);
}
