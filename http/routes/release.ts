import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { durableRowById } from "../../storage/tables/durable-rows.ts";
import { releaseHeld } from "../../storage/tables/held-runs.ts";
import { json } from "../exchange/reply.ts";
import { route } from "../route.ts";
import { durableTag } from "../tags.ts";

/** Max ids in one answer. */
const listedMax = 1_000;

const release = route({
  method: "POST",
  path: "/runs/release",
  summary: "Releases durable runs that are held since a restore: one, those of a manifest, or all.",
  tag: durableTag,
  access: ["runs:write"],
  tenancy: [{ of: "run", body: (id) => ({ token: id }) }],
  body: Type.Object(
    {
      token: Type.Optional(Type.String({ description: "The run, with its tasks and its parent run." })),
      manifest: Type.Optional(Type.String({ maxLength: 256, description: "Runs of this manifest, with their tasks." })),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "The number of released runs, and the ids of at most 1,000 of them.",
    schema: Type.Object({
      released: Type.Integer({ description: "0 if none of them is held." }),
      run_ids: Type.Array(Type.String({ examples: ["4a1f0c7be2d94c6f8b3e5d7a9c0b1e2f"] })),
    }),
  },
  fails: ["run_not_found", "storage_unavailable"],
  async handle({ body, principal }, { store }) {
    const tenant = store.tenant(principal.tenant_id);
    const { token = null, manifest = null } = body;
    if (token !== null && (await durableRowById(tenant, token)) === undefined) throw new SvcError("run_not_found");
    const ids = await releaseHeld(tenant, { token, manifest });
    return json({ released: ids.length, run_ids: ids.slice(0, listedMax) });
  },
});

export const releaseRoutes = [release];
