import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { json } from "../exchange/reply.ts";
import { type Route, route } from "../route.ts";

const readArtifact = route({
  method: "GET",
  path: "/artifacts/{manifest_id}/{artifact_id}",
  summary: "A long tool result that was stored separately.",
  tag: { name: "Artifacts", description: "Long tool results that were stored separately." },
  access: ["artifacts:read"],
  tenancy: [{ of: "artifact" }],
  params: Type.Object({
    manifest_id: Type.String({ description: "Name of the agent whose call had the result.", examples: ["quick"] }),
    artifact_id: Type.String({
      description: "From the marker at the end of the result, or from metadata.artifact_id of its event.",
      examples: ["0e9b2f64-6a55-4c1e-9d35-0c1f6a7b2c48"],
    }),
  }),
  reply: {
    description: "The whole text, of any thread of the tenant. 404 after SVC_ARTIFACT_RETENTION_DAYS.",
    schema: Type.Object({
      artifact_id: Type.String({ examples: ["0e9b2f64-6a55-4c1e-9d35-0c1f6a7b2c48"] }),
      manifest_id: Type.String({ examples: ["quick"] }),
      chars: Type.Integer({ description: "Length of `content` in UTF-16 code units.", examples: [10] }),
      content: Type.String({ examples: ["6 * 7 = 42"] }),
    }),
  },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params: { manifest_id, artifact_id }, principal }, { artifacts, store }) {
    const content = await artifacts.ofManifest(store.tenant(principal.tenant_id), artifact_id, manifest_id);
    if (content === null) throw new SvcError("not_found");
    return json({ artifact_id, manifest_id, chars: content.length, content });
  },
});

/** The route of artifacts. */
export const artifactRoutes: readonly Route[] = [readArtifact];
