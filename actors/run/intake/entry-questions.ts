import type { Questions } from "../../../governance/controls/control.ts";
import type { RunSpent } from "../../../storage/tables/run-columns.ts";

/** The models that controls of messages may ask. `spent` is their usage so far; null without a question. */
export interface EntryQuestions extends Questions {
  readonly spent: RunSpent | null;
}
