import type { Detector } from "../../governance/detection/detector.ts";
import { digitsOf, sticky } from "../../governance/detection/sticky.ts";

// National numbers of persons, each with the check that its public definition names.

/** Not before a number: part of a word, an amount, a decimal, a path or a longer number. */
const beforeNumber = /[\p{L}\p{N}_.$€£#/-]/u;
/** The characters of a number that is not complete yet, and one or two characters that decide about its end. */
const openNumber = /\d[\dA-Ba-b .\-/\u00a0]{0,26}.?.?$/suy;
/** After a number: no letter, digit or further group. */
const end = "(?![\\p{L}\\p{N}_])(?![.-]\\d)";

function numbers(...forms: readonly string[]): readonly RegExp[] {
  return forms.map((form) => new RegExp(form + end, "uy"));
}

/** Social security numbers of the United States. They have no checksum. Without separators they need their name before them. */
export const ssn: Detector = sticky({
  kind: "US_SSN",
  first: /\d/,
  after: beforeNumber,
  candidates: numbers(
    "(?!000|666|9)\\d{3}([ -])(?!00)\\d{2}\\1(?!0000)\\d{4}",
    "(?!000|666|9)\\d{3}(?!00)\\d{2}(?!0000)\\d{4}",
  ),
  open: openNumber,
  valid: (number, before) => {
    const digits = digitsOf(number);
    // Two numbers of old advertisements were never given to a person.
    if (digits === "078051120" || digits === "219099999") return false;
    return number.length > digits.length || /\b(?:ssn|social security)\b[^\n]*$/i.test(before);
  },
});

/** National Insurance numbers of the United Kingdom. */
export const nino: Detector = sticky({
  kind: "UK_NINO",
  first: /[A-Za-z]/,
  candidates: [
    /(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]([ -]?)\d{2}\1\d{2}\1\d{2}[ -]?[A-D](?![\p{L}\p{N}_])/iuy,
  ],
  open: /[A-Za-z]{1,2}(?:(?<=[A-Za-z]{2})[ -]?(?:\d[\d -]{0,9})?)?(?:(?<=\d[ -]?)[A-Da-d])?$/y,
});

/** Tax identification numbers of Germany: eleven digits with a check digit of ISO 7064, MOD 11,10. */
export const steuerId: Detector = sticky({
  kind: "DE_STEUER_ID",
  first: /[1-9]/,
  after: beforeNumber,
  candidates: numbers("[1-9]\\d ?\\d{3} ?\\d{3} ?\\d{3}", "[1-9]\\d/\\d{3}/\\d{3}/\\d{3}"),
  open: openNumber,
  valid(number) {
    const digits = digitsOf(number);
    const counts = new Map<string, number>();
    for (const digit of digits.slice(0, 10)) counts.set(digit, (counts.get(digit) ?? 0) + 1);
    const repeated = [...counts.values()].filter((count) => count > 1);
    if (repeated.length !== 1 || (repeated[0] as number) > 3 || /(\d)\1\1/.test(digits.slice(0, 10))) return false;
    let product = 10;
    for (const digit of digits.slice(0, 10)) {
      const sum = (Number(digit) + product) % 10 || 10;
      product = (sum * 2) % 11;
    }
    return (11 - product) % 10 === Number(digits[10]);
  },
});

/** Social security numbers of France (NIR): thirteen characters and a key of two digits. */
export const nir: Detector = sticky({
  kind: "FR_NIR",
  first: /[12378]/,
  after: beforeNumber,
  candidates: numbers(
    "[12378] ?\\d{2} ?(?:0[1-9]|1[0-2]|[2-4]\\d|[5-9]\\d) ?(?:\\d{2}|2[ABab]) ?\\d{3} ?\\d{3} ?\\d{2}",
  ),
  open: openNumber,
  valid(number) {
    const plain = number.replaceAll(" ", "").toUpperCase().replace("2A", "19").replace("2B", "18");
    if (!/^\d{15}$/.test(plain)) return false;
    return 97 - Number(BigInt(plain.slice(0, 13)) % 97n) === Number(plain.slice(13));
  },
});

const spanishLetters = "TRWAGMYFPDXBNJZSQVHLCKE";

/** National identity numbers of Spain: eight digits and a letter. */
export const dni: Detector = sticky({
  kind: "ES_DNI",
  first: /\d/,
  after: beforeNumber,
  candidates: [
    /\d{8}[ -]?[A-HJ-NP-TV-Z](?![\p{L}\p{N}_])/iuy,
    /\d{2}\.\d{3}\.\d{3}[ -]?[A-HJ-NP-TV-Z](?![\p{L}\p{N}_])/iuy,
  ],
  open: /\d[\d.]{0,9}[ -]?[A-Za-z]?$/y,
  valid: (number) => spanishLetters[Number(digitsOf(number)) % 23] === number.at(-1)?.toUpperCase(),
});

/** Identity numbers of foreigners in Spain: a letter, seven digits and a letter. */
export const nie: Detector = sticky({
  kind: "ES_NIE",
  first: /[XYZxyz]/,
  candidates: [/[XYZ][ -]?\d{7}[ -]?[A-HJ-NP-TV-Z](?![\p{L}\p{N}_])/iuy],
  open: /[XYZ][ -]?\d{0,7}(?:(?<=\d{7})[ -]?[A-Z]?)?$/iy,
  valid(number) {
    const first = "XYZ".indexOf((number[0] as string).toUpperCase());
    return spanishLetters[Number(`${first}${digitsOf(number)}`) % 23] === number.at(-1)?.toUpperCase();
  },
});

/** Values of the characters at odd places of a codice fiscale, for 0 to 9 and for A to Z. */
const oddDigits = [1, 0, 5, 7, 9, 13, 15, 17, 19, 21];
const oddLetters = [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];

/** Tax codes of Italy: sixteen characters, the last one a check. */
export const codiceFiscale: Detector = sticky({
  kind: "IT_CODICE_FISCALE",
  first: /[A-Za-z]/,
  candidates: [
    /[A-Z]{6}[\dLMNP-V]{2}[ABCDEHLMPRST][\dLMNP-V]{2}[A-Z][\dLMNP-V]{3}[A-Z](?![\p{L}\p{N}_])/iuy,
    /[A-Z]{3} [A-Z]{3} [\dLMNP-V]{2}[ABCDEHLMPRST][\dLMNP-V]{2} [A-Z][\dLMNP-V]{3}[A-Z](?![\p{L}\p{N}_])/iuy,
  ],
  open: /(?:[A-Z]{1,5}|[A-Z]{6}[\dA-Z]{0,10}|[A-Z]{3} (?:[A-Z]{0,2}|[A-Z]{3} ?|[A-Z]{3} [\dLMNP-V]{1,2}[A-Z]?[\dLMNP-V]{0,2} ?[A-Z]?[\dA-Z]{0,4}))$/iy,
  valid(code) {
    const plain = code.replaceAll(" ", "").toUpperCase();
    let sum = 0;
    for (const [at, character] of [...plain.slice(0, 15)].entries()) {
      const isDigit = character <= "9";
      const value = isDigit ? Number(character) : character.charCodeAt(0) - 65;
      // Places are counted from 1.
      sum += at % 2 === 1 ? value : ((isDigit ? oddDigits : oddLetters)[value] as number);
    }
    return String.fromCharCode(65 + (sum % 26)) === plain[15];
  },
});

/** Citizen service numbers of the Netherlands. One in eleven numbers passes their test, so they need their name before them. */
export const bsn: Detector = sticky({
  kind: "NL_BSN",
  first: /\d/,
  after: beforeNumber,
  candidates: numbers("\\d{9}", "\\d{4}\\.\\d{2}\\.\\d{3}", "\\d{3} \\d{3} \\d{3}", "\\d{8}"),
  open: openNumber,
  valid(number, before) {
    if (!/\b(?:bsn|burgerservicen|sofi)[^\n]*$/i.test(before)) return false;
    const digits = digitsOf(number).padStart(9, "0");
    let sum = -Number(digits[8]);
    for (let at = 0; at < 8; at++) sum += (9 - at) * Number(digits[at]);
    return sum % 11 === 0 && /[1-9]/.test(digits);
  },
});
