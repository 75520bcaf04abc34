import type { Settings } from "../../governance/settings/settings.ts";
import type { Route } from "../route.ts";
import { auditRoutes } from "./audit.ts";
import { chatRoutes } from "./chat.ts";
import { docsRoutes } from "./docs.ts";
import { manifestRoutes } from "./manifests.ts";
import { openAiRoutes } from "./openai.ts";
import { sessionRoutes } from "./sessions.ts";
import { systemRoutes } from "./system.ts";
import { usageRoutes } from "./usage.ts";
import { wellKnownRoutes } from "./well-known.ts";

/** Every route that a server with these settings has. */
export function allRoutes({ manifestSource }: Pick<Settings, "manifestSource">): readonly Route[] {
  const routes: readonly Route[] = [
    ...chatRoutes,
    ...sessionRoutes,
    ...openAiRoutes,
    ...auditRoutes,
    ...usageRoutes,
    ...manifestRoutes(manifestSource),
    ...systemRoutes,
    ...wellKnownRoutes,
    // The reference describes itself too.
    ...docsRoutes(() => routes),
  ];
  return routes;
}
