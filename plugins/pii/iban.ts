import type { Detector } from "../../governance/detection/detector.ts";
import { sticky } from "../../governance/detection/sticky.ts";

/** Length of an IBAN by country, from the public registry of ISO 13616. */
const lengths: Readonly<Record<string, number>> = {
  AD: 24,
  AE: 23,
  AL: 28,
  AT: 20,
  AZ: 28,
  BA: 20,
  BE: 16,
  BG: 22,
  BH: 22,
  BI: 27,
  BR: 29,
  BY: 28,
  CH: 21,
  CR: 22,
  CY: 28,
  CZ: 24,
  DE: 22,
  DJ: 27,
  DK: 18,
  DO: 28,
  EE: 20,
  EG: 29,
  ES: 24,
  FI: 18,
  FK: 18,
  FO: 18,
  FR: 27,
  GB: 22,
  GE: 22,
  GI: 23,
  GL: 18,
  GR: 27,
  GT: 28,
  HR: 21,
  HU: 28,
  IE: 22,
  IL: 23,
  IQ: 23,
  IS: 26,
  IT: 27,
  JO: 30,
  KW: 30,
  KZ: 20,
  LB: 28,
  LC: 32,
  LI: 21,
  LT: 20,
  LU: 20,
  LV: 21,
  LY: 25,
  MC: 27,
  MD: 24,
  ME: 22,
  MK: 19,
  MN: 20,
  MR: 27,
  MT: 31,
  MU: 30,
  NI: 28,
  NL: 18,
  NO: 15,
  OM: 23,
  PK: 24,
  PL: 28,
  PS: 29,
  PT: 25,
  QA: 29,
  RO: 24,
  RS: 22,
  RU: 33,
  SA: 24,
  SC: 31,
  SD: 18,
  SE: 24,
  SI: 19,
  SK: 24,
  SM: 27,
  SO: 23,
  ST: 25,
  SV: 28,
  TL: 23,
  TN: 24,
  TR: 26,
  UA: 29,
  VA: 22,
  VG: 24,
  XK: 20,
  YE: 30,
};

/** Bank account numbers, together or in groups. */
export const iban: Detector = {
  kind: "IBAN",
  ...lengthened(
    sticky({
      kind: "IBAN",
      first: /[A-Za-z]/,
      candidates: [/[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,29}/y],
      open: /[A-Za-z]{1,2}(?:(?<=[A-Za-z]{2})\d{1,2}(?:(?<=\d{2})(?:[ -]?[A-Za-z0-9]){0,30}[ -]?)?)?$/y,
    }),
  ),
};

/** Cuts a candidate to the length of its country and checks it. */
function lengthened({ first, match, mayBegin }: Detector): Pick<Detector, "first" | "match"> & Partial<Detector> {
  return {
    first,
    ...(mayBegin && { mayBegin }),
    match(text, at) {
      const end = match(text, at);
      if (end === -1) return -1;
      const length = lengths[text.slice(at, at + 2).toUpperCase()];
      if (length === undefined) return -1;
      let taken = 0;
      let last = at;
      for (; last < end && taken < length; last++) if (text[last] !== " " && text[last] !== "-") taken++;
      if (taken < length || /[\p{L}\p{N}_]/u.test(text.charAt(last))) return -1;
      return passesMod97(text.slice(at, last).replace(/[ -]/g, "").toUpperCase()) ? last : -1;
    },
  };
}

function passesMod97(account: string): boolean {
  const moved = account.slice(4) + account.slice(0, 4);
  let rest = 0;
  for (const character of moved) {
    const value = Number.parseInt(character, 36);
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97;
  }
  return rest === 1;
}
