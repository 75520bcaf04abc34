import type { Settings } from "../governance/settings.ts";
import type { Route } from "./route.ts";
import { auditRoutes } from "./routes/audit.ts";
import { chatRoutes } from "./routes/chat.ts";
import { docsRoutes } from "./routes/docs.ts";
import { manifestRoutes } from "./routes/manifests.ts";
import { openAiRoutes } from "./routes/openai.ts";
import { sessionRoutes } from "./routes/sessions.ts";
import { systemRoutes } from "./routes/system.ts";
import { usageRoutes } from "./routes/usage.ts";
import { wellKnownRoutes } from "./routes/well-known.ts";

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
