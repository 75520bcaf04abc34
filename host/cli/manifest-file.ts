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

/** A manifest of a file, and the names that it is made of and that no file has. */
interface CheckedFile {
  readonly agent: CompiledAgent;
  readonly unseen: readonly string[];
}

/** What is wrong with one file. */
interface InvalidFile {
  readonly path: string;
  readonly problems: readonly string[];
}

/**
 * Parses and compiles the manifest of a file as the server would; null when it is no file. Throws invalid_manifest with the problems of
 * all stages.
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

/** The manifests of a directory, in the order of their names: how many there are, and those that the server would refuse to run. */
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

/** What cannot even be looked at is none: it is told as the file that it is named as. */
function isDirectory(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  } catch {
    return false;
  }
}
