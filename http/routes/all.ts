import { holds } from "../../governance/settings/duties.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { bodyBytesDefault, type Route } from "../route.ts";
import { a2aRoutes } from "./a2a.ts";
import { answerRoutes } from "./answers.ts";
import { approvalRoutes } from "./approvals.ts";
import { artifactRoutes } from "./artifacts.ts";
import { askRoutes } from "./ask.ts";
import { auditRoutes } from "./audit.ts";
import { chatRoutes } from "./chat.ts";
import { compactRoutes } from "./compact.ts";
import { docsRoutes } from "./docs.ts";
import { embeddingRoutes } from "./embeddings.ts";
import { fileRoutes } from "./files.ts";
import { guideRoutes } from "./guide.ts";
import { homeRoutes } from "./home.ts";
import { internalRoutes } from "./internal.ts";
import { jobRoutes } from "./jobs.ts";
import { leaseRoutes } from "./leases.ts";
import { manifestToolRoutes } from "./manifest-tools.ts";
import { manifestRoutes } from "./manifests.ts";
import { mcpRoutes } from "./mcp.ts";
import { openAiRoutes } from "./openai.ts";
import { planRoutes } from "./plans.ts";
import { preferenceRoutes } from "./preferences.ts";
import { releaseRoutes } from "./release.ts";
import { requeueRoutes } from "./requeue.ts";
import { responseRoutes } from "./responses.ts";
import { runRequestRoutes } from "./run-requests.ts";
import { runRoutes } from "./runs.ts";
import { sessionNoteRoutes } from "./session-notes.ts";
import { sessionRoutes } from "./sessions.ts";
import { signInRoutes } from "./sign-in.ts";
import { steeringRoutes } from "./steering.ts";
import { systemRoutes } from "./system.ts";
import { timelineRoutes } from "./timeline.ts";
import { treeRoutes } from "./tree.ts";
import { triggerRoutes } from "./triggers.ts";
import { usageRoutes } from "./usage.ts";
import { wellKnownRoutes } from "./well-known.ts";
import { workspaceRoutes } from "./workspace.ts";

/** The settings that decide which routes exist. */
interface RoutesOf
  extends Pick<Settings, "manifestSource" | "duties">,
    Partial<Pick<Settings, "maxBodyBytes" | "maxUploadBytes">> {
  /** Null to include the trigger routes for any trigger. */
  readonly triggers: Settings["triggers"] | null;
}

/**
 * Returns every route of a server with these settings, including those of plugins. A process without the duty `api` has the system routes
 * only.
 */
export function allRoutes(
  { manifestSource, triggers, duties, maxBodyBytes = bodyBytesDefault, maxUploadBytes }: RoutesOf,
  ofPlugins: readonly Route[] = [],
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
    ...workspaceRoutes,
    ...openAiRoutes,
    ...responseRoutes,
    ...embeddingRoutes,
    ...a2aRoutes,
    ...mcpRoutes,
    ...(triggers?.length === 0 ? [] : triggerRoutes(triggers ?? [])),
    ...fileRoutes(maxUploadBytes),
    ...artifactRoutes,
    ...approvalRoutes,
    ...planRoutes,
    ...jobRoutes,
    ...auditRoutes,
    ...usageRoutes,
    ...manifestRoutes(manifestSource),
    ...manifestToolRoutes,
    ...homeRoutes,
    ...guideRoutes,
    ...systemRoutes,
    ...wellKnownRoutes,
    ...signInRoutes,
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
