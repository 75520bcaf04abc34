import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { subAgentProblems } from "../../actors/library/sub-agents.ts";
import { wholeRefusal } from "../../actors/library/whole-refusal.ts";
import { problemLines } from "../../governance/settings/problem-lines.ts";
import { compile } from "../../manifests/compile/compile.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { refuseProblems } from "../../manifests/problems.ts";
import { isManifestFile, readManifestFile } from "../../manifests/sources/files.ts";
import { neededTexts, readTexts } from "../../manifests/sources/texts.ts";
import { knownSubAgents, type Place } from "./known-sub-agents.ts";

/** The compiled manifest of a file, and its sub-agents that no file or object defines. */
interface CheckedFile {
  readonly agent: CompiledAgent;
  readonly unseen: readonly string[];
}

/** The problems of one file. */
interface InvalidFile {
  readonly path: string;
  readonly problems: readonly string[];
}

/**
 * Parses and compiles a manifest file as the server would; null if it is not a file. Throws invalid_manifest with the problems
 * of all stages.
 */
export async function checkManifestFile(path: string, place: Place): Promise<CheckedFile | null> {
  const { tenantId, registries, objects, env } = place;
  const { find, unseen } = knownSubAgents(place);
  try {
    const manifest = readManifestFile(path, env.now);
    if (manifest === null) return null;
    const texts = await readTexts(objects, neededTexts(manifest, tenantId));
    const agent = compile(manifest, registries, { tenantId, version: null, texts });
    refuseProblems(await subAgentProblems(manifest, find));
    return { agent, unseen: [...unseen] };
  } catch (error) {
    throw await wholeRefusal(error, { tenantId, registries, objects, find });
  }
}

/** Checks the manifests of a directory in the order of their names; returns the number of files and the invalid ones. */
export async function checkManifestDirectory(
  directory: string,
  place: Place,
): Promise<{ readonly files: number; readonly invalid: readonly InvalidFile[] }> {
  const paths = readdirSync(directory)
    .filter(isManifestFile)
    .sort()
    .map((name) => join(directory, name))
    .filter((path) => !isDirectory(path));
  const invalid: InvalidFile[] = [];
  for (const path of paths) {
    try {
      const checked = await checkManifestFile(path, place);
      if (checked === null) invalid.push({ path, problems: ["It is a link to a file that does not exist."] });
    } catch (error) {
      invalid.push({ path, problems: problemLines(error) });
    }
  }
  return { files: paths.length, invalid };
}

/** Returns false if the path cannot be read; it is then reported as an invalid file. */
function isDirectory(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  } catch {
    return false;
  }
}
