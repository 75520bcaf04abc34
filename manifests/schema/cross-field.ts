import { type Problem, writePath } from "../problems.ts";
import { type Manifest, sections } from "./manifest.ts";

/** What one field alone cannot be refused for: every rule of the sections that the manifest breaks, in their order. */
export function crossFieldProblems({ spec, metadata }: Manifest): Problem[] {
  return sections.flatMap(({ rules }) =>
    rules.flatMap(({ says, type = "conflict", broken }) =>
      broken(spec, metadata.name).map((loc) => ({ loc, msg: `${writePath(loc)} ${says}.`, type })),
    ),
  );
}
