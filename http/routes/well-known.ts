import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { json } from "../exchange/reply.ts";
import { mcpPath, namesIssuer, protectedResourcePath } from "../protected-resource.ts";
import { publicUrlOf } from "../public-url.ts";
import { route } from "../route.ts";
import { systemTag } from "../tags.ts";

// Public routes below /.well-known/, except for the agent card; see a2a.ts.

const jwks = route({
  method: "GET",
  path: "/.well-known/jwks.json",
  summary: "The public keys that verify tokens.",
  tag: systemTag,
  access: "public",
  unlimited: true,
  reply: {
    description: "Those of SVC_JWKS_PUBLIC and of sign-in. `error` is `not_configured` and `keys` empty without both.",
    example: {
      keys: [
        {
          kty: "OKP",
          crv: "Ed25519",
          kid: "2026",
          alg: "EdDSA",
          use: "sig",
          x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
        },
      ],
    },
    schema: Type.Object({
      error: Type.Optional(Type.String()),
      keys: Type.Array(Type.Object({ kty: Type.String({ examples: ["OKP"] }) }, { additionalProperties: true })),
    }),
  },
  handle(_request, { settings }) {
    const keys = [...(settings.jwksPublic?.keys ?? []), ...settings.tokenSigningKey.map((key) => key.public)];
    return json(keys.length > 0 ? { keys } : { error: "not_configured", keys });
  },
});

const ProtectedResource = Type.Object({
  resource: Type.String({ description: "The URL that a token is for.", examples: ["https://agents.example.com/mcp"] }),
  authorization_servers: Type.Array(Type.String(), {
    description: "SVC_JWT_ISSUER.",
    examples: [["https://login.example.com"]],
  }),
  bearer_methods_supported: Type.Array(Type.String(), { examples: [["header"]] }),
  resource_name: Type.String({ examples: ["svc"] }),
});

/** The document of RFC 9728 for the whole server, or for the resource at `path`. */
function protectedResource(path: "" | typeof mcpPath) {
  return route({
    method: "GET",
    path: `${protectedResourcePath}${path}`,
    summary: path === "" ? "Where clients get a token for this server." : "Where MCP clients get a token.",
    tag: systemTag,
    access: "public",
    unlimited: true,
    reply: {
      description: "Protected resource metadata (RFC 9728). Only in mode jwt with SVC_JWT_ISSUER.",
      schema: ProtectedResource,
    },
    fails: ["not_found"],
    handle({ exchange: { head } }, { settings }) {
      if (!namesIssuer(settings)) throw new SvcError("not_found");
      return json({
        resource: `${publicUrlOf(head, settings)}${path}`,
        authorization_servers: [settings.jwtIssuer],
        bearer_methods_supported: ["header"],
        resource_name: "svc",
      });
    },
  });
}

export const wellKnownRoutes = [jwks, protectedResource(""), protectedResource(mcpPath)];
