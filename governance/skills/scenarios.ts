import type { SkillScenario } from "../../storage/tables/skill-evals.ts";
import type { BundleFiles } from "./bundle.ts";

// The scenarios of a bundle: evals/scenarios.json, or evals/<name>/scenario.json. The criteria are a text or a list of texts.

const listFile = "evals/scenarios.json";
const oneFile = /^evals\/([^/]+)\/scenario\.json$/;
const nameCharsMax = 100;
const promptCharsMax = 8_000;
const criteriaCharsMax = 4_000;

/** The scenarios of a bundle, or why they cannot be read. */
export type ReadScenarios =
  | { readonly ok: true; readonly scenarios: readonly SkillScenario[] }
  | { readonly ok: false; readonly problem: string };

/** Reads up to `most` scenarios; none if the bundle has none. */
export function readScenarios(files: BundleFiles, most: number): ReadScenarios {
  const found: { readonly path: string; readonly name: string; readonly value: unknown }[] = [];
  const paths = Object.hasOwn(files, listFile) ? [listFile] : Object.keys(files).filter((path) => oneFile.test(path));
  for (const path of paths.toSorted()) {
    let value: unknown;
    try {
      value = JSON.parse(files[path] as string);
    } catch {
      return { ok: false, problem: `${path} is not JSON` };
    }
    if (path !== listFile) found.push({ path, name: oneFile.exec(path)?.[1] ?? "", value });
    else if (Array.isArray(value))
      for (const [at, one] of value.entries()) found.push({ path, name: `${at + 1}`, value: one });
    else return { ok: false, problem: `${path} is not a list` };
  }
  const scenarios: SkillScenario[] = [];
  for (const { path, name, value } of found.slice(0, most)) {
    const scenario = scenarioOf(value, name);
    if (scenario === null) return { ok: false, problem: `${path}: each scenario needs the texts prompt and criteria` };
    scenarios.push(scenario);
  }
  return { ok: true, scenarios };
}

function scenarioOf(value: unknown, fallback: string): SkillScenario | null {
  if (typeof value !== "object" || value === null) return null;
  const { name = fallback, prompt, criteria } = value as Readonly<Record<string, unknown>>;
  const wanted = Array.isArray(criteria) ? criteria.join("\n") : criteria;
  if (typeof name !== "string" || typeof prompt !== "string" || typeof wanted !== "string") return null;
  return prompt.trim() === "" || wanted.trim() === "" ? null : cutScenario({ name, prompt, criteria: wanted });
}

/** Returns a scenario within the limits of its texts. */
export function cutScenario({ name, prompt, criteria }: SkillScenario): SkillScenario {
  return {
    name: name.slice(0, nameCharsMax).toWellFormed(),
    prompt: prompt.slice(0, promptCharsMax).toWellFormed(),
    criteria: criteria.slice(0, criteriaCharsMax).toWellFormed(),
  };
}

/** The scenarios of a skill for which no others could be written. */
export const defaultScenarios: readonly SkillScenario[] = [
  {
    name: "introduction",
    prompt: "What can you help me with, and how would you go about it?",
    criteria: "The answer is concrete, correct and useful, and promises nothing that it cannot do.",
  },
  {
    name: "plan",
    prompt: "Give me a short step-by-step plan for a task of your choice in your field, with the check of its result.",
    criteria: "The steps are in a sensible order, complete and actionable, and the last one checks the result.",
  },
  {
    name: "mistakes",
    prompt: "Which mistakes do people often make in your field, and how do I avoid them?",
    criteria: "The mistakes are real and specific, and each has practical advice.",
  },
];
