import { closeSync, constants, fstatSync, openSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { isBinaryPath } from "./binary-files.ts";
import { type BundleFiles, bundleBytesMax, bundleFilesMax } from "./bundle.ts";
import type { FoundSkill, FoundSkills, SkillFolder } from "./review-job.ts";
import { reviewBundle } from "./review-worker.ts";

// Skills on disk: each folder of the folder that has a SKILL.md. Links are not followed, and hidden files are left out.

/** Finds the skills of a folder, in the order of their names. */
export function findSkills({ path, skillsMax }: SkillFolder): FoundSkills {
  const skills: FoundSkill[] = [];
  const problems: string[] = [];
  for (const { name } of entriesOf(path).filter((entry) => entry.isDirectory())) {
    if (skills.length === skillsMax) {
      problems.push(`${path} has more than ${skillsMax} skills`);
      break;
    }
    try {
      const files = filesOf(join(path, name));
      if (!Object.hasOwn(files, "SKILL.md")) continue;
      const { faults, head, files: list } = reviewBundle(files);
      const [fault] = faults;
      if (fault !== undefined) problems.push(`${name}/${fault.path} ${fault.message}`);
      else if (head !== null && head.name === name) skills.push({ folder: join(path, name), head, files: list });
      else problems.push(`${name}/SKILL.md names another skill than its folder`);
    } catch (error) {
      problems.push(`${name}: ${(error as Error).message}`);
    }
  }
  return { skills, problems };
}

/** Reads the files of one skill's folder: texts, and base64 of binary files. */
export function filesOf(folder: string): BundleFiles {
  const files: Record<string, string> = {};
  let bytes = 0;
  const walk = (inner: string, depth: number): void => {
    for (const entry of entriesOf(join(folder, inner))) {
      const path = inner === "" ? entry.name : `${inner}/${entry.name}`;
      if (entry.isDirectory()) {
        if (depth < 16) walk(path, depth + 1);
      } else if (entry.isFile()) {
        const content = readPlain(join(folder, path), bundleBytesMax);
        bytes += content.length;
        if (Object.keys(files).length === bundleFilesMax || bytes > bundleBytesMax)
          throw new Error(`${basename(folder)} has more than ${bundleFilesMax} files or ${bundleBytesMax} bytes`);
        files[path] = isBinaryPath(path) ? content.toString("base64") : textOf(content, path);
      }
    }
  };
  walk("", 0);
  return files;
}

/** Reads a file that is no link. Throws if it is one, or longer than `bytesMax`. */
export function readPlain(path: string, bytesMax: number): Buffer {
  const handle = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stat = fstatSync(handle);
    if (!stat.isFile()) throw new Error(`${basename(path)} is no file`);
    if (stat.size > bytesMax) throw new Error(`${basename(path)} has more than ${bytesMax} bytes`);
    return readFileSync(handle);
  } finally {
    closeSync(handle);
  }
}

function textOf(bytes: Buffer, path: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Error(`${path} is neither UTF-8 nor a known kind of binary file`);
  }
}

function entriesOf(folder: string) {
  return readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => !name.startsWith("."))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}
