import { card, email } from "../../governance/detection/common-detectors.ts";
import type { Detector } from "../../governance/detection/detector.ts";
import { iban } from "./iban.ts";
import { bsn, codiceFiscale, dni, nie, nino, nir, ssn, steuerId } from "./national-numbers.ts";
import { phone } from "./phone.ts";

/** The detectors of this plugin. A number that several accept counts as the first. */
export const detectors: readonly Detector[] = [
  email,
  iban,
  card,
  nir,
  codiceFiscale,
  steuerId,
  ssn,
  nino,
  nie,
  dni,
  phone,
  bsn,
];
