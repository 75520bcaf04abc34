// The skill library while others change it: publications that meet another change, and processes that die between two batches.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { ComputeJob, ComputePool } from "../../../governance/compute/compute-pool.ts";
import { SecretMask } from "../../../governance/secret-mask.ts";
import { loadSettings } from "../../../governance/settings/settings.ts";
import { SkillCatalogs } from "../../../governance/skills/catalogs.ts";
import { HostSkills } from "../../../governance/skills/host-skills.ts";
import { type Librarian, type NewVersion, SkillLibrary } from "../../../governance/skills/library.ts";
import type { BundleReview } from "../../../governance/skills/review-job.ts";
import { SkillFiles } from "../../../storage/files/skill-files.ts";
import { openMemoryStore } from "../../../storage/objects/memory.ts";
import type { Store } from "../../../storage/store/store.ts";
import {
  advanceOps,
  insertSkillOp,
  insertVersionOp,
  type SkillVersionId,
  skillVersions,
  storedSkill,
  updateSkillOp,
} from "../../../storage/tables/skills.ts";
import { scopeWith } from "../../support/scope-with.ts";
import { skillText } from "../../support/skills.ts";
import { stoppingStore } from "../../support/stopping-store.ts";
import { dialects, type TestStore, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const settings = loadSettings({});
const ann: Librarian = { sub: "ann", owner: "", agent: null };
const tenantId = "acme";
const filesOf = (name: string, body = "# Help\n\n1. Do it.\n") => ({
  "SKILL.md": skillText(name, `How to do ${name} well, for tests.`, { body }),
  "references/a.md": "More.",
});
const versionOf = (name: string, parent: string | null, body?: string): NewVersion => ({
  ...({ files: filesOf(name, body), reason: "", name: parent === null ? null : name, parent } as const),
  ...({ version: null, bump: "patch", source: "operator" } as const),
});

/** Does the work of a job in this thread. */
async function inline<Input, Output>({ file, name }: ComputeJob<Input, Output>, input: Input): Promise<Output> {
  const module = (await import(file.href)) as Record<string, (input: Input) => Output>;
  return (module[name] as (input: Input) => Output)(input);
}

for (const dialect of dialects)
  describe(`the skill library on ${dialect}`, () => {
    const atEnd = cleanup();
    const objects = openMemoryStore();
    let database: TestStore;
    let store: Store;
    let count = 0;
    before(async () => {
      database = await testStore(dialect, atEnd);
      store = database.store;
    });

    /** A library whose reviews pass through `review`, before they are answered. */
    function libraryWith(review: (found: BundleReview) => BundleReview | Promise<BundleReview> = (found) => found) {
      const compute = {
        async run<Input, Output>(job: ComputeJob<Input, Output>, input: Input): Promise<Output> {
          const found = await inline(job, input);
          return job.name === "reviewBundle" ? ((await review(found as BundleReview)) as Output) : found;
        },
      } as Pick<ComputePool, "run">;
      const log = { warn: (problem: unknown) => assert.fail(JSON.stringify(problem)) };
      const host = new HostSkills({ env, compute: { run: inline }, settings, log });
      const mask = new SecretMask([]);
      return new SkillLibrary({ env, compute, settings, mask, host, files: new SkillFiles(objects) });
    }
    const library = libraryWith();
    const tenant = () => store.tenant(tenantId);
    const idOf = (name: string, version = "0.1.0"): SkillVersionId => ({ library: "", name, version });
    const publish = (id: SkillVersionId, by = library) => by.publish(tenant(), id, ann, { isRollback: false });
    const stateOf = async (name: string) => {
      const skill = await storedSkill(tenant(), "", name);
      const rows = (await skillVersions(tenant(), idOf(name))).filter(({ is_stored }) => is_stored === 1);
      const states = Object.fromEntries(rows.map(({ version, status }) => [version, status]));
      return { live: skill?.live_version ?? null, drafts: skill?.pending_drafts, states };
    };
    const codeOf = (work: Promise<unknown>) =>
      work.then(
        () => "done",
        (error: unknown) => {
          const { code, details } = SvcError.from(error);
          const { reasons } = (details.detail ?? {}) as { reasons?: readonly string[] };
          return reasons === undefined ? code : `${code} ${reasons.join()}`;
        },
      );
    /** A skill with two drafts. */
    const withDrafts = async () => {
      const name = `skill-${++count}`;
      await library.save(tenant(), "", ann, versionOf(name, null));
      await library.save(tenant(), "", ann, versionOf(name, "0.1.0", "# Two\n"));
      return name;
    };

    type Change = (name: string) => Promise<unknown>;
    const policy = (values: object) => library.setPolicy(tenant(), values, "olga");
    const meanwhile: readonly (readonly [what: string, change: Change, outcome: string, live: string | null])[] = [
      ["a stricter quality", () => policy({ min_quality: 99 }), "publish_blocked quality_below_floor", null],
      ["a required evaluation", () => policy({ require_eval: true }), "publish_blocked eval_required", null],
      ["a looser policy", () => policy({ min_quality: 1 }), "done", "0.1.0"],
      ["the publication of another version", (name) => publish(idOf(name, "0.1.1")), "done", "0.1.0"],
      ["its own publication", (name) => publish(idOf(name)), "version_conflict", "0.1.0"],
      ["its rejection", (name) => library.reject(tenant(), idOf(name), ann, "No."), "version_conflict", null],
      ["the deletion of the skill", (name) => library.remove(tenant(), idOf(name), ann), "version_conflict", null],
      [
        "a new version",
        (name) => library.save(tenant(), "", ann, versionOf(name, "0.1.1", "# Three\n")),
        "done",
        "0.1.0",
      ],
    ];
    for (const [what, change, outcome, live] of meanwhile)
      test(`LIB-028 a publication that meets ${what} decides about the newer state`, async () => {
        const name = await withDrafts();
        let reviews = 0;
        const slow = libraryWith(async (found) => {
          if (++reviews === 1) await change(name);
          return found;
        });

        const code = await codeOf(publish(idOf(name), slow));
        const after = await stateOf(name);
        await library.setPolicy(tenant(), null, "olga");

        assert.deepEqual([code, after.live, reviews], [outcome, live, 1]);
        const published = Object.values(after.states).filter((status) => status === "live");
        assert.equal(published.length, live === null ? 0 : 1);
        const drafts = Object.values(after.states).filter((status) => status === "draft");
        assert.equal(after.drafts, drafts.length);
      });

    test("LIB-028 the second of two publishers who expect the same live version is refused", async () => {
      const name = await withDrafts();
      const expecting = (version: string) =>
        codeOf(library.publish(tenant(), idOf(name, version), ann, { isRollback: false, expectedLive: null }));

      const codes = await Promise.all(["0.1.0", "0.1.1"].map(expecting));

      assert.deepEqual(codes.toSorted(), ["done", "live_changed"]);
      assert.equal(Object.values((await stateOf(name)).states).filter((status) => status === "live").length, 1);
    });

    const failing = (found: BundleReview): BundleReview => ({
      ...found,
      security: { ...found.security, status: "fail" },
    });
    const noResult = (): never => {
      throw new Error("the thread has ended");
    };
    test("LIB-008 a scan that fails, or has no result, after a draft was saved lets nothing become live", async () => {
      const name = await withDrafts();
      const found = await codeOf(publish(idOf(name), libraryWith(failing)));
      const none = await codeOf(publish(idOf(name), libraryWith(noResult)));
      await publish(idOf(name));
      await publish(idOf(name, "0.1.1"));
      const rollback = libraryWith(failing).publish(tenant(), idOf(name), ann, { isRollback: true });
      const back = await codeOf(rollback);

      assert.deepEqual(
        [found, none, back],
        ["publish_blocked security_scan_failed", "deadline_exceeded", "publish_blocked security_scan_failed"],
      );
      assert.equal((await stateOf(name)).live, "0.1.1");
    });

    test("LIB-008 a version whose files were changed or lost in the object store is not published", async () => {
      const name = await withDrafts();
      const key = (version: string) => `skill-library/${tenantId}/${name}/${version}/references/a.md`;
      await objects.put(key("0.1.0"), Buffer.from("Less."));
      await objects.delete(key("0.1.1"));

      const codes = [await codeOf(publish(idOf(name))), await codeOf(publish(idOf(name, "0.1.1")))];

      assert.deepEqual(codes, ["version_corrupt", "version_corrupt"]);
      assert.deepEqual((await stateOf(name)).states, { "0.1.0": "draft", "0.1.1": "draft" });
    });

    /** Moves that a process may die in; each is repeated by the next process. */
    const moves: Readonly<Record<string, (of: Store, name: string) => Promise<unknown>>> = {
      save: (of, name) => library.save(of.tenant(tenantId), "", ann, versionOf(name, "0.1.1", "# Three\n")),
      publish: (of, name) => library.publish(of.tenant(tenantId), idOf(name), ann, { isRollback: false }),
      reject: (of, name) => library.reject(of.tenant(tenantId), idOf(name), ann, "No."),
      remove: (of, name) => library.remove(of.tenant(tenantId), idOf(name), ann),
    };
    for (const [move, run] of Object.entries(moves))
      test(`LIB-043 a process that dies at any batch of ${move} leaves it undone, or done once`, async () => {
        const whole = stoppingStore(store, Number.POSITIVE_INFINITY, true);
        const usual = await withDrafts();
        await run(whole, usual);
        const expected = await stateOf(usual);
        assert.ok(whole.batches >= 1);

        for (let batches = 0; batches <= whole.batches; batches++)
          for (const answered of [true, false]) {
            const name = await withDrafts();
            const before = await stateOf(name);
            const dying = stoppingStore(store, batches, answered);
            await Promise.race([dying.stopped, run(dying, name)]);
            const left = await stateOf(name);
            const again = await codeOf(run(store, name));
            const after = await stateOf(name);

            const isDone = batches === whole.batches;
            const of = `${move} ${batches} ${answered}`;
            assert.deepEqual(left, isDone ? expected : before, of);
            assert.equal(again === "done", !isDone, `${of}: ${again}`);
            // The number of a version whose files were never stored is skipped.
            const skipped = move === "save" && batches === 1;
            assert.deepEqual(
              Object.values(after.states).toSorted(),
              Object.values(expected.states).toSorted(),
              `${of}: ${JSON.stringify(after)}`,
            );
            assert.equal(after.drafts, expected.drafts, of);
            if (move === "save") assert.ok((skipped ? "0.1.3" : "0.1.2") in after.states, of);
          }
      });

    /** The store of a tenant; the names of its reads are added to `reads`. */
    const noting = (of: string, reads: string[]) => {
      const scope = store.tenant(of);
      return scopeWith(scope, {
        read(statement, ...params) {
          reads.push(statement.name);
          return scope.read(statement, ...params);
        },
        readLong(statement, ...params) {
          reads.push(statement.name);
          return scope.readLong(statement, ...params);
        },
      });
    };
    const rules = {
      declared: new Map(),
      declaredOnly: false,
      personal: "off",
      authoring: null,
      suggestion: null,
    } as const;
    const catalogs = () => {
      const log = { warn: (problem: unknown) => assert.fail(JSON.stringify(problem)) };
      return new SkillCatalogs(
        new HostSkills({ env, compute: { run: inline }, settings, log }),
        new SkillFiles(objects),
      );
    };

    test("SKILL-011 a catalog reads the changed skills after a change, and nothing else", async () => {
      const [name, other] = [await withDrafts(), await withDrafts()];
      for (const each of [name, other]) await publish(idOf(each));
      const reads: string[] = [];
      const made = catalogs();
      const of = async () => {
        reads.length = 0;
        const { skills } = await made.of(noting(tenantId, reads), rules, null);
        return { skills, reads: [...reads] };
      };
      const first = await of();
      const same = await of();
      await publish(idOf(name, "0.1.1"));
      const [changed, again] = await Promise.all([of(), made.of(tenant(), rules, null)]);
      await library.setPolicy(tenant(), null, "olga");
      const untouched = await of();
      await library.remove(tenant(), idOf(other), ann);
      const removed = await of();

      assert.deepEqual([first.reads, same.reads], [["skill_catalog", "skills_live"], ["skill_catalog"]]);
      assert.deepEqual(changed.reads, ["skill_catalog", "skills_live_marks", "skill_live"]);
      assert.deepEqual([first.skills.get(name)?.version, changed.skills.get(name)?.version], ["0.1.0", "0.1.1"]);
      assert.equal(changed.skills, again.skills, "runs at once make one catalog");
      assert.equal(changed.skills.get(other), first.skills.get(other), "an unchanged skill is not read again");
      assert.deepEqual(
        changed.skills.get(name)?.files.map(({ path }) => path),
        ["SKILL.md", "references/a.md"],
      );
      assert.deepEqual([untouched.reads, removed.reads], [changed.reads.slice(0, 2), changed.reads.slice(0, 2)]);
      assert.deepEqual([removed.skills.has(name), removed.skills.has(other)], [true, false]);
    });

    test("a large library is read in pages, and again after many changes", async () => {
      const [row] = await skillVersions(tenant(), idOf(await withDrafts()));
      const [skill] = [await storedSkill(tenant(), "", row?.name ?? "")];
      assert.ok(row !== undefined && skill !== undefined);
      const many = store.tenant("many");
      const names = Array.from({ length: 251 }, (_, at) => `many-${at}`);
      await many.write([
        ...names.flatMap((name) => [
          insertVersionOp(many, { ...row, name, is_stored: 1, status: "live" }),
          insertSkillOp(many, { ...skill, name, live_version: row.version, latest_version: row.version }),
        ]),
        ...advanceOps(many, 0),
      ]);
      const reads: string[] = [];
      const made = catalogs();
      const first = await made.of(noting("many", reads), rules, null);
      const changes = [];
      for (const name of names.slice(0, 65)) changes.push((await storedSkill(many, "", name)) ?? skill);
      await many.write([...changes.map((each) => updateSkillOp(many, each, each)), ...advanceOps(many, 1)]);
      const second = await made.of(noting("many", reads), rules, null);

      for (const { skills } of [first, second]) assert.ok(names.every((name) => skills.has(name)));
      assert.deepEqual(reads, [
        ...["skill_catalog", "skills_live", "skills_live"],
        ...["skill_catalog", "skills_live_marks", "skills_live", "skills_live"],
      ]);
    });
  });
