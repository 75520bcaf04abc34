import { type CountryCode, parsePhoneNumberFromString } from "libphonenumber-js/max";
import type { Detector } from "../../governance/detection/detector.ts";
import { digitsOf, sticky } from "../../governance/detection/sticky.ts";

/** The countries of national formats, by the shape of a number. A national number has a separator. */
const national: readonly { readonly shape: RegExp; readonly countries: readonly CountryCode[] }[] = [
  { shape: /^(?:1[ .-])?\(?[2-9]\d{2}\)?[ .-]?[2-9]\d{2}[ .-]\d{4}$/, countries: ["US"] },
  { shape: /^[6-9]\d{2}(?: \d{3} \d{3}|-\d{3}-\d{3}|(?: \d{2}){3})$/, countries: ["ES"] },
  { shape: /^3\d{2}[ .-]\d{3}[ .-]?\d{3,4}$/, countries: ["IT"] },
  { shape: /^\(?0/, countries: ["GB", "FR", "NL", "IT", "DE"] },
];

/** A date, such as 01.02.2024 or 01-02-2024, alone or with a time. */
const date = /^(?:0[1-9]|[12]\d|3[01])([./-])(?:0[1-9]|1[0-2])\1(?:19|20)\d{2}/;

/** The form of social security numbers of the United States. */
const otherNumber = /^\d{3}-\d{2}-\d{4}$/;
/** The beginning of a longer number in groups, such as a bank account. */
const insideNumber = /\d[ .-]$|[A-Z]{2}\d{2}(?: ?[A-Z0-9]{1,4}){0,7} $/;

/** Phone numbers with a country code, and in the national formats of US, GB, DE, FR, ES, IT and NL. */
export const phone: Detector = sticky({
  kind: "PHONE",
  first: /[+(\d]/,
  after: /[\p{L}\p{N}_.,$€£#/=(-]/u,
  candidates: [
    /(?:\+|00)[1-9]\d{0,2}(?:[ .\-/]{0,2}\(?\d{1,11}\)?){1,7}(?![\p{L}\p{N}_])(?![.,-]\d)/uy,
    /\(?0\d{1,5}\)?(?:[ ./-]|[ )]{0,1}[-/] )\d{2,8}(?:[ .-]\d{2,8}){0,4}(?![\p{L}\p{N}_])(?![.,-]\d)/uy,
    /(?:1[ .-])?(?:\([2-9]\d{2}\) ?|[2-9]\d{2}[ .-])[2-9]\d{2}[ .-]\d{4}(?![\p{L}\p{N}_])(?![.,-]\d)/uy,
    /[36-9]\d{2}(?:[ .-]\d{3}[ .-]?\d{3,4}|(?: \d{2}){3})(?![\p{L}\p{N}_])(?![.,-]\d)/uy,
  ],
  open: /[+(]?[\d ().\-/]{0,100}.?.?$/suy,
  valid(candidate, before) {
    const { length } = digitsOf(candidate);
    if (length < 8 || length > 15 || date.test(candidate)) return false;
    if (candidate.startsWith("+")) return isValid(candidate);
    if (otherNumber.test(candidate) || insideNumber.test(before)) return false;
    if (candidate.startsWith("00")) return isValid(`+${candidate.slice(2)}`);
    return national.some(
      ({ shape, countries }) => shape.test(candidate) && countries.some((country) => isValid(candidate, country)),
    );
  },
});

function isValid(candidate: string, country?: CountryCode): boolean {
  return parsePhoneNumberFromString(candidate, country)?.isValid() ?? false;
}
