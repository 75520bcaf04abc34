import { Type } from "../../bus/type.ts";
import { json } from "../exchange/reply.ts";
import { actorFails, type Route, route } from "../route.ts";
import { manifestsTag as tag } from "../tags.ts";
import { checkReadSuffix } from "../thread-id.ts";

const release = route({
  method: "POST",
  path: "/manifests/{name}/pins/release",
  summary: "Releases threads from the version of a manifest that they are pinned to.",
  tag,
  access: ["manifests:write"],
  tenancy: [{ of: "manifest", body: () => ({}) }],
  params: Type.Object({
    name: Type.String({ description: "The manifest's metadata.name.", examples: ["helper"] }),
  }),
  body: Type.Object(
    {
      thread_id: Type.Optional(
        Type.String({ minLength: 1, description: "One thread; absent for all of the manifest.", examples: ["t-1"] }),
      ),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "The next turn of a released thread pins it anew.",
    schema: Type.Object({ released: Type.Integer({ description: "Threads that had a pin.", examples: [1] }) }),
  },
  fails: ["invalid_thread_id", ...actorFails],
  async handle({ params, body, principal }, { bus }) {
    const suffix = body.thread_id === undefined ? null : checkReadSuffix(body.thread_id);
    const asked = { name: params.name, suffix, principal };
    return json(await bus.ask({ kind: "manifests", key: principal.tenant_id }, "releasePins", asked));
  },
});

/** Routes of the pins of threads to versions of manifests. */
export const manifestPinRoutes: readonly Route[] = [release];
