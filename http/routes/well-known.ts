import { Type } from "../../bus/type.ts";
import { json } from "../exchange/reply.ts";
import { route } from "../route.ts";

// What is below /.well-known/ needs no credentials. There is no agent card in this version, for there is no A2A that it could
// point to: its path is one of those that do not exist, as it is where a manifest withholds the card.

const jwks = route({
  method: "GET",
  path: "/.well-known/jwks.json",
  summary: "The public keys that verify tokens.",
  tag: "System",
  access: "public",
  unlimited: true,
  reply: {
    description: "`error` is `not_configured` and `keys` empty if SVC_JWKS_PUBLIC is not set.",
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
      keys: Type.Array(Type.Object({ kty: Type.String() }, { additionalProperties: true })),
    }),
  },
  handle: (_request, { settings }) =>
    json(settings.jwksPublic ? { keys: settings.jwksPublic.keys } : { error: "not_configured", keys: [] }),
});

export const wellKnownRoutes = [jwks];
