import type { Migration } from "../store/migration.ts";
import { migration as baseline } from "./0000_baseline.ts";
import { migration as artifacts } from "./0100_artifacts.ts";
import { migration as a2aTasks } from "./0101_a2a_tasks.ts";
import { migration as mcpPins } from "./0102_mcp_pins.ts";
import { migration as shellCommands } from "./0103_shell_commands.ts";
import { migration as cluster } from "./0104_cluster.ts";
import { migration as quarantine } from "./0107_quarantine.ts";
import { migration as manifestPins } from "./0109_manifest_pins.ts";
import { migration as auditChain } from "./0110_audit_chain.ts";
import { migration as budgetsAndFreezes } from "./0111_budgets_and_freezes.ts";
import { migration as mcpPinBytes } from "./0112_mcp_pin_bytes.ts";
import { migration as documents } from "./0113_documents.ts";
import { migration as a2aTaskList } from "./0114_a2a_task_list.ts";
import { migration as vectors } from "./0115_vectors.ts";
import { migration as memories } from "./0118_memories.ts";
import { migration as memoryCapture } from "./0119_memory_capture.ts";
import { migration as memoryPauses } from "./0120_memory_pauses.ts";
import { migration as skills } from "./0124_skills.ts";
import { migration as skillFeedback } from "./0125_skill_feedback.ts";
import { migration as documentFiles } from "./0126_document_files.ts";
import { migration as auditMarks } from "./0128_audit_marks.ts";
import { migration as manifestRetention } from "./0130_manifest_retention.ts";
import { migration as threadRecords } from "./0131_thread_records.ts";
import { migration as evaluations } from "./0133_evaluations.ts";
import { migration as skillUpstreams } from "./0140_skill_upstreams.ts";
import { migration as personalFeedback } from "./0141_personal_feedback.ts";
import { migration as skillJobs } from "./0145_skill_jobs.ts";
import { migration as pushSubscriptions } from "./0150_push_subscriptions.ts";
import { migration as runtimeAccess } from "./0151_runtime_access.ts";
import { migration as repositories } from "./0160_repositories.ts";
import { migration as workflows } from "./0165_workflows.ts";

/** Every migration, in the order of their revisions. */
export const migrations: readonly Migration[] = [
  baseline,
  artifacts,
  a2aTasks,
  mcpPins,
  shellCommands,
  cluster,
  quarantine,
  manifestPins,
  auditChain,
  budgetsAndFreezes,
  mcpPinBytes,
  documents,
  a2aTaskList,
  vectors,
  memories,
  memoryCapture,
  memoryPauses,
  skills,
  skillFeedback,
  documentFiles,
  auditMarks,
  manifestRetention,
  threadRecords,
  evaluations,
  skillUpstreams,
  personalFeedback,
  skillJobs,
  pushSubscriptions,
  runtimeAccess,
  repositories,
  workflows,
];
