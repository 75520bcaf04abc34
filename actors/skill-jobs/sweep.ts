import type { Env, Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { holds } from "../../governance/settings/duties.ts";
import { evalAuditOp } from "../../governance/skills/evaluations.ts";
import { feedbackEndOp } from "../../governance/skills/feedback.ts";
import { isOwnerGone } from "../../governance/skills/job-owner.ts";
import { endSkillEvalOp, type SkillEvalRow, skillJobAttemptsMax } from "../../storage/tables/skill-evals.ts";
import type { SkillFeedbackRow } from "../../storage/tables/skill-feedback.ts";
import {
  beatSkillJobOp,
  type ClaimedSkillJob,
  claimSkillJobs,
  endImproveOp,
  putOffSkillJobOp,
} from "../../storage/tables/skill-jobs.ts";
import { ModelFailure } from "../models/provider.ts";
import { QuestionTooLarge } from "../questions/model-question.ts";
import { Cancellation } from "../runtime/cancellation.ts";
import type { SkillJobsDeps } from "./deps.ts";
import { evaluateSkill } from "./evaluate.ts";
import { improveSkill } from "./improve.ts";
import { type JobContext, JobFailure } from "./job-context.ts";

/** Max jobs of each kind of one sweep. */
const jobsMax = 5;
/** A claim ends after this time without a heartbeat. */
const claimMs = 60_000;
const beatMs = 15_000;
/** Pause before the next attempt, and of a job whose tenant or agent is frozen. */
const retryMs = 30_000;
const pausedMs = 300_000;
const errorCharsMax = 500;

/** Why the work on a job was stopped; null while it may continue. */
type Stop = "drained" | "lost" | "late" | null;

/** Works on due jobs. Its state is a cache: the work is in the store. */
export class SkillSweep {
  readonly #env: Env;
  readonly #deps: SkillJobsDeps;
  #sweeping = false;
  #stopped = false;

  constructor(env: Env, deps: SkillJobsDeps) {
    this.#env = env;
    this.#deps = deps;
  }

  /** True if the sweep can be dropped from memory. */
  get isIdle(): boolean {
    return !this.#sweeping;
  }

  /** Starts no more jobs. Work in progress ends by itself, or with the drain. */
  stop(): void {
    this.#stopped = true;
  }

  /** Sweeps in the background. No effect during a sweep. */
  begin(): void {
    if (this.#sweeping || this.#stopped || !holds(this.#deps.settings, "worker")) return;
    this.#sweeping = true;
    void this.#sweep().finally(() => {
      this.#sweeping = false;
    });
  }

  async #sweep(): Promise<void> {
    const { store, owner, log } = this.#deps;
    try {
      const sweep = `${owner}:${this.#env.id()}`;
      const jobs = await claimSkillJobs(store.system, { owner: sweep, forMs: claimMs, limit: jobsMax });
      await Promise.all(jobs.map((job) => this.#work(job)));
    } catch (err) {
      // The jobs stay due in the store.
      log.warn({ err }, "jobs of skills could not be claimed: the store does not answer");
    }
  }

  async #work(job: ClaimedSkillJob): Promise<void> {
    const { liveRuns, settings } = this.#deps;
    const cancellation = new Cancellation();
    let stop: Stop = null;
    const end = (why: Stop): void => {
      stop ??= why;
      cancellation.cancel();
    };
    // Another process takes a job that a drain gives back, so the drain does not wait for the model.
    const drain = (): void => {
      this.stop();
      end("drained");
    };
    const work = { slot: -1, cancellation, abort: drain, drain };
    liveRuns.add(work);
    const deadline = this.#env.timer(settings.skillJobDeadlineSeconds * 1_000, () => end("late"));
    const pulse = this.#pulse(job, () => end("lost"));
    try {
      if (this.#stopped) return await this.#putOff(job, 0, false);
      await this.#do(job, cancellation);
    } catch (error) {
      await this.#failed(job, error, stop).catch((err: unknown) =>
        this.#deps.log.warn(
          { err, job: job.row.id },
          "the end of a job of skills could not be stored; it is tried again",
        ),
      );
    } finally {
      deadline.cancel();
      pulse.stop();
      liveRuns.delete(work);
    }
  }

  async #do(job: ClaimedSkillJob, cancellation: Cancellation): Promise<void> {
    const context: JobContext = { ...this.#placeOf(job), env: this.#env, deps: this.#deps, cancellation };
    const { asked, attempts } = job.row;
    if (attempts > skillJobAttemptsMax) throw new JobFailure("attempts_exhausted");
    if (asked === null || (await isOwnerGone(job.tenant_id, asked, this.#deps, this.#env.now())))
      throw new JobFailure("principal_revoked");
    if (job.kind === "eval") await evaluateSkill(job.row, context);
    else await improveSkill(job.row, context);
  }

  /** Extends the claim until it is stopped. */
  #pulse(job: ClaimedSkillJob, lost: () => void): { stop(): void } {
    const { store } = this.#placeOf(job);
    let timer: Timer;
    const beat = async (): Promise<void> => {
      try {
        await store.write([beatSkillJobOp(store, job.kind, job.row, claimMs)]);
      } catch (error) {
        // A store that does not answer loses the claim in time, without our help.
        if (SvcError.from(error).code === "conflict") lost();
      }
    };
    const next = (): void => {
      timer = this.#env.timer(beatMs, () => {
        next();
        void beat();
      });
    };
    next();
    return { stop: () => timer.cancel() };
  }

  async #failed(job: ClaimedSkillJob, error: unknown, stop: Stop): Promise<void> {
    if (stop === "lost") return;
    if (stop === "drained") return this.#putOff(job, 0, false);
    if (stop === "late") return this.#end(job, "deadline_exceeded");
    const code = error instanceof SvcError ? error.code : null;
    if (code === "frozen") return this.#putOff(job, pausedMs, false);
    const known = knownFailure(error);
    if (known !== null) return this.#end(job, known);
    const { attempts, id } = job.row;
    const isLast = attempts >= skillJobAttemptsMax;
    this.#deps.log.warn({ err: error, job: id, kind: job.kind, attempt: attempts }, "a job of skills has failed");
    if (!isLast) return this.#putOff(job, retryMs * attempts, true);
    const words = error instanceof ModelFailure ? `model_failed: ${error.publicMessage}` : "attempts_exhausted";
    return this.#end(job, words);
  }

  async #putOff({ kind, row, ...job }: ClaimedSkillJob, ms: number, counts: boolean): Promise<void> {
    const { store } = this.#placeOf(job);
    await store.write([putOffSkillJobOp(store, kind, row, { ms, counts })]).catch(() => {});
  }

  async #end(job: ClaimedSkillJob, words: string): Promise<void> {
    const { store } = this.#placeOf(job);
    const { mask, metrics } = this.#deps;
    const audit = { env: this.#env, mask };
    const error = mask.forms.text(words).slice(0, errorCharsMax).toWellFormed();
    metrics.count("svc_skill_jobs_total", { kind: job.kind, outcome: "failed" });
    if (job.kind === "eval") {
      const row: SkillEvalRow = { ...job.row, status: "failed", error, finished_at: this.#env.now(), counts: 0 };
      await store.write([endSkillEvalOp(store, row), evalAuditOp(store, row, "skill_eval_finished", audit)]);
      return;
    }
    const row: SkillFeedbackRow = { ...job.row, status: "failed", error };
    await store.write([endImproveOp(store, row), feedbackEndOp(store, row, audit)]);
  }

  #placeOf({ tenant_id }: Pick<ClaimedSkillJob, "tenant_id">) {
    return { store: this.#deps.store.tenant(tenant_id) };
  }
}

/** Returns the words of a failure that a repetition cannot cure; null for another one. */
function knownFailure(error: unknown): string | null {
  if (error instanceof JobFailure) return error.message;
  if (error instanceof QuestionTooLarge) return `budget_exceeded: ${error.message}`;
  if (error instanceof ModelFailure) return error.retryable ? null : `model_failed: ${error.publicMessage}`;
  if (!(error instanceof SvcError)) return null;
  const isPassing =
    error.retryable || error.status >= 500 || ["conflict", "parent_changed", "version_conflict"].includes(error.code);
  return isPassing && error.code !== "version_corrupt" ? null : error.code;
}
