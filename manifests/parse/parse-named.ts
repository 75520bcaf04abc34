import { SvcError } from "../../bus/errors.ts";
import { type Problem, refuseProblems } from "../problems.ts";
import type { Manifest } from "../schema/manifest.ts";
import { parseManifest } from "./parse.ts";
import { decodeUtf8 } from "./read-source.ts";

/**
 * The manifest in `source`, a text as bytes or a parsed value, which must be called `name`, null for any. Throws invalid_manifest,
 * with `origin` before each sentence, so that people know which file to mend.
 */
export function parseNamed(source: unknown, name: string | null, origin: string): Manifest {
  try {
    const manifest = parseManifest(source instanceof Uint8Array ? readUtf8(source) : source);
    if (name !== null && manifest.metadata.name !== name) {
      const msg = `metadata.name must be ${name}, as ${origin} is named.`;
      refuseProblems([{ loc: ["metadata", "name"], msg, type: "conflict" }]);
    }
    return manifest;
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "invalid_manifest") throw error;
    const problems = error.details.detail as readonly Problem[];
    refuseProblems(
      problems.map((problem) => ({ ...problem, msg: `${origin}: ${problem.msg}` })),
      error.cause,
    );
    throw error;
  }
}

function readUtf8(bytes: Uint8Array): string {
  const text = decodeUtf8(bytes);
  if (text === null) refuseProblems([{ loc: [], msg: "The text is not UTF-8.", type: "syntax" }]);
  return text as string;
}
