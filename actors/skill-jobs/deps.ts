import type { Logger } from "pino";
import type { FreshDeps } from "../../governance/auth/fresh-access.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { SkillJobLimits } from "../../governance/skills/evaluations.ts";
import type { SkillLibrary } from "../../governance/skills/library.ts";
import type { Store } from "../../storage/store/store.ts";
import type { ManifestLibrary } from "../library/manifest-library.ts";
import type { QuestionDeps } from "../questions/model-question.ts";
import type { LiveRuns } from "../runtime/live-runs.ts";

/** The settings of the jobs of skills. */
type JobSettings = SkillJobLimits &
  FreshDeps["settings"] &
  Pick<
    Settings,
    | "duties"
    | "skillEvalModel"
    | "skillEvalJudgeModel"
    | "skillImproveModel"
    | "skillEvalMaxScenarios"
    | "skillEvalMaxTokens"
    | "skillImproveMaxTokens"
    | "skillJobDeadlineSeconds"
  >;

/** Dependencies of the actor that sweeps the jobs of skills. */
export interface SkillJobsDeps extends QuestionDeps {
  readonly store: Store;
  readonly manifests: Pick<ManifestLibrary, "compiled">;
  readonly skillLibrary: SkillLibrary;
  readonly mask: SecretMask;
  readonly settings: JobSettings;
  /** The stored keys and sign-ins. */
  readonly access: FreshDeps["access"];
  readAccess(): Promise<void>;
  readonly log: Logger;
  readonly liveRuns: LiveRuns;
  /** Name of this thread of this host, with which claims begin. */
  readonly owner: string;
}
