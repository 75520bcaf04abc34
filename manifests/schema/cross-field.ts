import { type Problem, writePath } from "../problems.ts";
import { type Manifest, sections } from "./manifest.ts";
import type { Refuted } from "./refuted.ts";

/**
 * Returns the rules of the sections that the manifest breaks, in their order, without consequences of earlier problems.
 */
export function crossFieldProblems(manifest: Manifest, refuted: Refuted): Problem[] {
  const { spec, metadata } = manifest;
  return sections.flatMap(({ rules }) =>
    rules.flatMap(({ says, type = "conflict", broken }) => {
      const { value, reads } = refuted.watch(() => broken(spec, metadata.name));
      return value
        .map((loc) => refuted.locate(manifest, loc))
        .filter((loc) => !refuted.breaks(loc, reads))
        .map((loc) => ({ loc, msg: `${writePath(loc)} ${says}.`, type }));
    }),
  );
}
