import { SvcError } from "../../bus/errors.ts";
import { type Problem, refuseProblems } from "../problems.ts";
import type { Manifest } from "../schema/manifest.ts";
import { Refuted } from "../schema/refuted.ts";
import { type Draft, draftOf, refuseDraft, withOrigin } from "./draft.ts";
import { parseManifest } from "./parse.ts";
import { decodeUtf8 } from "./read-source.ts";

/**
 * Parses the manifest in `source`, bytes of a text or a parsed value, which must have the name `name` unless null.
 * Throws invalid_manifest, with `origin` before each sentence to identify the file.
 */
export function parseNamed(source: unknown, name: string | null, origin: string): Manifest {
  const draft = parseDraft(source, origin);
  const { manifest } = draft;
  const problems = [...draft.problems];
  const hasName = !problems.some(({ loc: [part, field = "name"] }) => part === "metadata" && field === "name");
  if (hasName && name !== null && manifest.metadata.name !== name) {
    const msg = `metadata.name must be ${name}, as ${origin} is named.`;
    problems.push({ loc: ["metadata", "name"], msg, type: "conflict" });
  }
  refuseDraft({ ...draft, problems: withOrigin(problems, origin), origin });
  return manifest;
}

/** Parses the source, whether valid or not. Throws invalid_manifest if later stages cannot check it. */
function parseDraft(source: unknown, origin: string): Draft {
  try {
    const manifest = parseManifest(source instanceof Uint8Array ? readUtf8(source) : source);
    return { manifest, refuted: new Refuted(), problems: [], origin, isCompiled: false };
  } catch (error) {
    const draft = draftOf(error);
    if (draft) return draft;
    if (!(error instanceof SvcError) || error.code !== "invalid_manifest") throw error;
    refuseProblems(withOrigin(error.details.detail as readonly Problem[], origin), error.cause);
    throw error;
  }
}

function readUtf8(bytes: Uint8Array): string {
  const text = decodeUtf8(bytes);
  if (text === null) refuseProblems([{ loc: [], msg: "The text is not UTF-8.", type: "syntax" }]);
  return text as string;
}
