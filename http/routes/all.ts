import { holds } from "../../governance/settings/duties.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { OwnedAddition } from "../pages/console-screens.ts";
import { bodyBytesDefault, type Route } from "../route.ts";
import { a2aRoutes } from "./a2a.ts";
import { aguiRoutes } from "./agui.ts";
import { answerRoutes } from "./answers.ts";
import { approvalRoutes } from "./approvals.ts";
import { artifactRoutes } from "./artifacts.ts";
import { askRoutes } from "./ask.ts";
import { auditRoutes } from "./audit.ts";
import { chatRoutes } from "./chat.ts";
import { compactRoutes } from "./compact.ts";
import { consoleRoutes } from "./console.ts";
import { docsRoutes } from "./docs.ts";
import { documentRoutes } from "./documents.ts";
import { embeddingRoutes } from "./embeddings.ts";
import { evalDatasetRoutes } from "./eval-datasets.ts";
import { evalRunRoutes } from "./eval-runs.ts";
import { eventRoutes } from "./events.ts";
import { fileRoutes } from "./files.ts";
import { freezeRoutes } from "./freezes.ts";
import { githubRoutes } from "./github.ts";
import { guideRoutes } from "./guide.ts";
import { homeRoutes } from "./home.ts";
import { hostRoutes } from "./hosts.ts";
import { internalRoutes } from "./internal.ts";
import { jobRoutes } from "./jobs.ts";
import { keyRoutes } from "./keys.ts";
import { leaseRoutes } from "./leases.ts";
import { manifestPinRoutes } from "./manifest-pins.ts";
import { manifestPlanRoutes } from "./manifest-plans.ts";
import { manifestToolRoutes } from "./manifest-tools.ts";
import { manifestRoutes } from "./manifests.ts";
import { mcpRoutes } from "./mcp.ts";
import { memoryRoutes } from "./memory.ts";
import { openAiRoutes } from "./openai.ts";
import { planRoutes } from "./plans.ts";
import { preferenceRoutes } from "./preferences.ts";
import { pushRoutes } from "./push.ts";
import { quarantineRoutes } from "./quarantine.ts";
import { releaseRoutes } from "./release.ts";
import { repoRoutes } from "./repo.ts";
import { requeueRoutes } from "./requeue.ts";
import { responseRoutes } from "./responses.ts";
import { runRequestRoutes } from "./run-requests.ts";
import { runRoutes } from "./runs.ts";
import { sessionNoteRoutes } from "./session-notes.ts";
import { sessionRoutes } from "./sessions.ts";
import { type SignInSettings, signInRoutes } from "./sign-in.ts";
import { skillEvalRoutes } from "./skill-evals.ts";
import { skillFeedbackRoutes } from "./skill-feedback.ts";
import { skillImportRoutes } from "./skill-import.ts";
import { skillLibraryRoutes } from "./skill-library.ts";
import { skillPolicyRoutes } from "./skill-policy.ts";
import { skillVersionRoutes } from "./skill-versions.ts";
import { skillRoutes } from "./skills.ts";
import { steeringRoutes } from "./steering.ts";
import { systemRoutes } from "./system.ts";
import { timelineRoutes } from "./timeline.ts";
import { treeRoutes } from "./tree.ts";
import { triggerRoutes } from "./triggers.ts";
import { usageRoutes } from "./usage.ts";
import { wellKnownRoutes } from "./well-known.ts";
import { whoamiRoutes } from "./whoami.ts";
import { workflowRunRoutes } from "./workflow-runs.ts";
import { workflowRoutes } from "./workflows.ts";
import { workspaceRoutes } from "./workspace.ts";

/** The settings that decide which routes exist. */
interface RoutesOf
  extends Pick<Settings, "manifestSource" | "duties">,
    Partial<Pick<Settings, "maxBodyBytes" | "maxUploadBytes" | "console">> {
  /** Decides which routes of sign-in are public; absent for all. */
  readonly signIn?: SignInSettings;
  /** Null to include the trigger routes for any trigger. */
  readonly triggers: Settings["triggers"] | null;
}

/**
 * Returns every route of a server with these settings, including those of plugins, and with their screens of the console. A process without the duty `api` has the system routes
 * only.
 */
export function allRoutes(
  {
    signIn,
    manifestSource,
    triggers,
    duties,
    console = true,
    maxBodyBytes = bodyBytesDefault,
    maxUploadBytes,
  }: RoutesOf,
  ofPlugins: readonly Route[] = [],
  screens: readonly OwnedAddition[] = [],
): readonly Route[] {
  if (!holds({ duties }, "api")) return systemRoutes;
  const declared: readonly Route[] = [
    ...chatRoutes,
    ...runRoutes,
    ...requeueRoutes,
    ...releaseRoutes,
    ...timelineRoutes,
    ...runRequestRoutes,
    ...answerRoutes,
    ...internalRoutes,
    ...preferenceRoutes,
    ...steeringRoutes,
    ...askRoutes,
    ...sessionRoutes,
    ...sessionNoteRoutes,
    ...leaseRoutes,
    ...treeRoutes,
    ...compactRoutes,
    ...skillRoutes,
    ...skillPolicyRoutes,
    ...skillImportRoutes,
    ...skillLibraryRoutes,
    ...skillVersionRoutes,
    ...skillFeedbackRoutes,
    ...skillEvalRoutes,
    ...workspaceRoutes,
    ...repoRoutes,
    ...githubRoutes,
    ...openAiRoutes,
    ...responseRoutes,
    ...embeddingRoutes,
    ...a2aRoutes,
    ...aguiRoutes,
    ...mcpRoutes,
    ...(triggers?.length === 0 ? [] : triggerRoutes(triggers ?? [])),
    ...fileRoutes(maxUploadBytes),
    ...artifactRoutes,
    ...quarantineRoutes,
    ...documentRoutes,
    ...memoryRoutes,
    ...approvalRoutes,
    ...pushRoutes,
    ...planRoutes,
    ...jobRoutes,
    ...workflowRoutes,
    ...workflowRunRoutes,
    ...evalDatasetRoutes,
    ...evalRunRoutes,
    ...auditRoutes,
    ...usageRoutes,
    ...manifestRoutes(manifestSource),
    ...freezeRoutes,
    ...keyRoutes,
    ...manifestPinRoutes,
    ...manifestPlanRoutes,
    ...manifestToolRoutes,
    ...homeRoutes,
    ...(console ? consoleRoutes(screens) : []),
    ...guideRoutes,
    ...systemRoutes,
    ...hostRoutes,
    ...eventRoutes,
    ...wellKnownRoutes,
    ...signInRoutes(signIn ?? null),
    ...whoamiRoutes,
    ...ofPlugins,
    // The reference describes its own routes too.
    ...docsRoutes(() => routes),
  ];
  // SVC_MAX_BODY_BYTES replaces the default limit, but not the limit that a route declares for itself.
  const routes = declared.map((route) =>
    route.bodyBytesMax === bodyBytesDefault ? { ...route, bodyBytesMax: maxBodyBytes } : route,
  );
  return routes;
}
