import type { BundleFiles, ReadBundle } from "./bundle.ts";

// The quality score of a bundle: the share of the weight of the checks that it passes.

/** A check of a bundle's quality. */
export interface ReviewCheck {
  readonly id: string;
  readonly label: string;
  readonly message: string;
  readonly passed: boolean;
  readonly weight: number;
}

/** The checks and their score, from 0 to 100. */
export interface Quality {
  readonly score: number;
  readonly checks: readonly ReviewCheck[];
}

/** Scores a bundle. An invalid one has the score 0. */
export function qualityOf(files: BundleFiles, { faults, head, body }: ReadBundle): Quality {
  const [fault] = faults;
  const valid = check(
    "valid-bundle",
    "Valid bundle",
    30,
    faults.length === 0,
    fault && `${fault.path} ${fault.message}`,
  );
  if (head === null || faults.length > 0) return { score: 0, checks: [valid] };
  const has = (folder: string) => Object.keys(files).some((path) => path.startsWith(`${folder}/`));
  const length = [...head.description].length;
  const isDescribed = length >= 20 && length <= 500;
  const isLicensed = head.license !== "" || Object.keys(head.metadata).some((key) => key !== "compatibility");
  const hasHeading = /^#{1,6}[ \t]/m.test(body);
  const hasSteps = /^[ \t]{0,8}(?:\d{1,4}\.|-)[ \t]/m.test(body);
  const checks = [
    valid,
    check("description-length", "Description", 15, isDescribed, "the description should have 20 to 500 characters"),
    check("license-metadata", "License or metadata", 5, isLicensed, "there is no license and no metadata"),
    check("compatibility", "Compatibility", 5, head.compatibility !== "", "compatibility is not stated"),
    check("body-length", "Instructions", 15, body.trim().length >= 100, "the instructions have under 100 characters"),
    check("headings", "Headings", 10, hasHeading, "the instructions have no heading"),
    check("actionable-steps", "Steps", 10, hasSteps, "the instructions have no numbered or bulleted step"),
    check("scripts-dir", "Scripts", 5, has("scripts"), "there is no folder scripts"),
    check("references-dir", "References", 5, has("references"), "there is no folder references"),
    check("plugin-manifest", "Plugin manifest", 5, Object.hasOwn(files, "plugin.json"), "there is no plugin.json"),
  ];
  const total = checks.reduce((sum, { weight }) => sum + weight, 0);
  const passed = checks.reduce((sum, one) => sum + (one.passed ? one.weight : 0), 0);
  return { score: Math.round((100 * passed) / total), checks };
}

function check(
  id: string,
  label: string,
  weight: number,
  passed: boolean,
  otherwise = "the bundle is invalid",
): ReviewCheck {
  return { id, label, message: passed ? "passed" : otherwise.trim(), passed, weight };
}
