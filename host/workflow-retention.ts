import { workflowSuffix } from "../bus/address.ts";
import type { Settings } from "../governance/settings/settings.ts";
import { pinnedRevisions } from "../governance/workflows/pinned-revisions.ts";
import {
  deleteWorkflowRun,
  type EndedWorkflowRun,
  oldWorkflowRuns,
  workedUnits,
} from "../storage/tables/workflow-runs.ts";
import { type DeletedWorkflow, deletedWithRevisions, dropUnneeded } from "../storage/tables/workflows.ts";
import { type EraseDeps, eraseThread, threadsAtOnce } from "./retention.ts";

/** Runs, and deleted workflows, of one page. */
const pageSize = 50;

interface Deps extends EraseDeps {
  readonly settings: Pick<Settings, "triggers">;
}

/**
 * Deletes the runs of workflows that finished at or before a time, with the threads of their steps. A run whose threads cannot all be deleted is
 * left for the next sweep.
 */
export async function eraseOldWorkflowRuns(deps: EraseDeps, until: number): Promise<void> {
  for (let after: EndedWorkflowRun | null = null; ; ) {
    const page: EndedWorkflowRun[] = await oldWorkflowRuns(deps.store.system, until, after, pageSize);
    for (const { tenant_id, id } of page) {
      const tenant = deps.store.tenant(tenant_id);
      const units = await workedUnits(tenant, id);
      let isErased = true;
      for (let from = 0; from < units.length; from += threadsAtOnce) {
        const some = units.slice(from, from + threadsAtOnce);
        const ends = await Promise.all(
          some.map(({ step_id, item }) => eraseThread(deps, tenant_id, workflowSuffix(id, step_id, item), {})),
        );
        if (ends.includes("failed")) isErased = false;
      }
      if (isErased) await deleteWorkflowRun(tenant, id);
    }
    after = page.at(-1) ?? null;
    if (page.length < pageSize) return;
  }
}

/** Deletes the revisions of deleted workflows that neither a run nor a trigger needs any more. */
export async function dropOldRevisions({ store, settings, log }: Deps): Promise<void> {
  for (let after: DeletedWorkflow | null = null; ; ) {
    const page: DeletedWorkflow[] = await deletedWithRevisions(store.system, after, pageSize);
    for (const workflow of page) {
      const { tenant_id, id } = workflow;
      await dropUnneeded(store.tenant(tenant_id), workflow, pinnedRevisions(settings, tenant_id, id)).catch(
        (err: unknown) =>
          log.warn(
            { err, workflow_id: id },
            "revisions of a deleted workflow could not be deleted; the sweep tries again",
          ),
      );
    }
    after = page.at(-1) ?? null;
    if (page.length < pageSize) return;
  }
}
