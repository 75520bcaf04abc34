import { fileURLToPath } from "node:url";
import type { Logger } from "pino";
import type { Env } from "../../bus/env.ts";
import type { ComputePool } from "../compute/compute-pool.ts";
import type { Settings } from "../settings/settings.ts";
import { type FoundSkill, findSkillsJob } from "./review-job.ts";

/** A skill of the server: one that ships with svc, or of SVC_SKILLS_DIR. */
export interface HostSkill extends FoundSkill {
  readonly source: "bundled" | "store";
}

/** The skills of the server by name. The object is another one after a change. */
export type HostSkillMap = ReadonlyMap<string, HostSkill>;

/** The folder of the skills that ship with svc. */
export const bundledFolder: string = fileURLToPath(new URL("./bundled", import.meta.url));
/** How long the skills of a directory are used before the directory is read again. */
const freshMs = 10_000;
const skillsMax = 5_000;

/** Services that the skills of the server need. */
export interface HostSkillsDeps {
  readonly env: Pick<Env, "monotonic">;
  readonly compute: Pick<ComputePool, "run">;
  readonly settings: Pick<Settings, "skillsDir">;
  readonly log: Pick<Logger, "warn">;
}

/** Reads the skills of the server in the compute pool. The directory is read again while it is in use, in the background. */
export class HostSkills {
  readonly #deps: HostSkillsDeps;
  #bundled: Promise<readonly FoundSkill[]> | null = null;
  #known: HostSkillMap | null = null;
  #digest = "";
  #reading: Promise<HostSkillMap> | null = null;
  #readAt = 0;

  constructor(deps: HostSkillsDeps) {
    this.#deps = deps;
  }

  /** Returns the skills. Only the first call waits for the disk. */
  all(): HostSkillMap | Promise<HostSkillMap> {
    const { env, settings, log } = this.#deps;
    if (this.#known === null) return this.#read();
    if (settings.skillsDir !== "" && env.monotonic() - this.#readAt > freshMs)
      this.#read().catch((err: unknown) => log.warn({ err }, "SVC_SKILLS_DIR could not be read again"));
    return this.#known;
  }

  #read(): Promise<HostSkillMap> {
    this.#reading ??= this.#find().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #find(): Promise<HostSkillMap> {
    const { env, settings } = this.#deps;
    this.#bundled ??= this.#of(bundledFolder).catch((error: unknown) => {
      this.#bundled = null;
      throw error;
    });
    const bundled = await this.#bundled;
    const own = settings.skillsDir === "" ? [] : await this.#of(settings.skillsDir);
    this.#readAt = env.monotonic();
    const digest = JSON.stringify(own);
    // Catalogs are made again when the object changes.
    if (this.#known !== null && digest === this.#digest) return this.#known;
    this.#digest = digest;
    const all = new Map<string, HostSkill>();
    for (const skill of bundled) all.set(skill.head.name, { ...skill, source: "bundled" });
    for (const skill of own) all.set(skill.head.name, { ...skill, source: "store" });
    this.#known = all;
    return all;
  }

  async #of(path: string): Promise<readonly FoundSkill[]> {
    const { skills, problems } = await this.#deps.compute.run(findSkillsJob, { path, skillsMax });
    for (const problem of problems.slice(0, 20)) this.#deps.log.warn({ problem }, "a skill of the server is left out");
    return skills;
  }
}
