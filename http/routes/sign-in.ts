import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { signInMethods } from "../../governance/settings/sign-in-methods.ts";
import {
  exchangeMs,
  type Provider,
  redirectMs,
  type SignIn,
  type TokenAnswer,
} from "../../governance/sign-in/sign-in.ts";
import type { HttpContext } from "../context.ts";
import { json, type Reply } from "../exchange/reply.ts";
import { clientAddress } from "../middleware/address-caller.ts";
import { type Access, type Route, route } from "../route.ts";
import { setSignInCookie, signInCookie } from "../sign-in/cookie.ts";
import { noStore, signInRefusalReply } from "../sign-in/sign-in-refusal.ts";
import type { Tag } from "../tags.ts";

// Sign-in of people and workflows (document 1, "Sign-in routes"). A route is public only while its provider is configured.

const tag: Tag = { name: "Sign-in", description: "Tokens for people and workflows of a code host or Google." };

/** The settings that decide which routes are public. */
export type SignInSettings = Parameters<typeof signInMethods>[0];

const tenant = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: 64,
    description: "The tenant, if several admit the account.",
    examples: ["acme"],
  }),
);

const Token = Type.Object({
  access_token: Type.String({ examples: ["eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJnaXRodWI6MSJ9.c2lnbmF0dXJl"] }),
  token_type: Type.Literal("Bearer"),
  expires_in: Type.Integer({ description: "Seconds.", examples: [3_600] }),
  tenant: Type.String({ examples: ["acme"] }),
  scopes: Type.Array(Type.String(), { examples: [["chat:write"]] }),
  github_login: Type.String({ description: "Empty for workflows and Google.", examples: ["octocat"] }),
});

const tokenReply = { description: "An access token, for `authorization: Bearer`.", schema: Token };

/** Returns the routes of sign-in; without settings, those of a server where all providers are configured. */
export function signInRoutes(settings: SignInSettings | null): readonly Route[] {
  const open = settings === null ? everything : signInMethods(settings);
  return [
    methods,
    device(accessOf(open.github_device)),
    deviceToken(accessOf(open.github_device)),
    ...redirectRoutes("github", accessOf(open.github_redirect)),
    ...redirectRoutes("google", accessOf(open.google_redirect)),
    actions(accessOf(open.github_actions)),
  ];
}

const everything = { github_device: true, github_redirect: true, google_redirect: true, github_actions: true };

const methods = route({
  method: "GET",
  path: "/auth/methods",
  summary: "The enabled ways to authenticate.",
  tag,
  access: "public",
  reply: {
    description: "`bearer_required` is false only if SVC_AUTH_MODE is none.",
    example: { github_device: false, github_redirect: false, google_redirect: false, bearer_required: true },
    schema: Type.Object({
      github_device: Type.Boolean(),
      github_redirect: Type.Boolean(),
      google_redirect: Type.Boolean(),
      bearer_required: Type.Boolean(),
      github_signup: Type.Union([Type.Literal("off"), Type.Literal("invite")]),
    }),
  },
  handle(_request, { settings }) {
    const { github_device, github_redirect, google_redirect } = signInMethods(settings);
    const bearer_required = settings.authMode !== "none";
    return json({
      github_device,
      github_redirect,
      google_redirect,
      bearer_required,
      github_signup: settings.githubSignup,
    });
  },
});

function device(access: Access): Route {
  return route({
    method: "POST",
    path: "/auth/github/device",
    summary: "Starts a sign-in by device: show user_code and verification_uri, then poll POST /auth/github/token.",
    tag,
    access,
    refusal: signInRefusalReply,
    reply: {
      description: "The code that the person enters, and the one that the device polls with.",
      schema: Type.Object({
        device_code: Type.String({ examples: ["2c7d4e6f8a9b0c1d2e3f4a5b6c7d8e9f2c7d4e6f8a9b0c1d2e3f4a5b6c7d8e9f"] }),
        user_code: Type.String({ examples: ["WDJB-MJHT"] }),
        verification_uri: Type.String({ examples: ["https://github.com/login/device"] }),
        expires_in: Type.Integer({ description: "Seconds.", examples: [900] }),
        interval: Type.Integer({ description: "Seconds between two polls.", examples: [5] }),
      }),
    },
    fails: ["not_configured", "rate_limited", "github_unavailable", "github_config_error", "storage_unavailable"],
    handle: async ({ exchange }, context) => {
      const signIn = signInOf(context, access);
      return json(await signIn.startDevice(clientAddress(exchange, context.settings)), 200, noStore);
    },
  });
}

function deviceToken(access: Access): Route {
  return route({
    method: "POST",
    path: "/auth/github/token",
    summary: "Returns the token of a sign-in by device, once the person has confirmed it.",
    tag,
    access,
    refusal: signInRefusalReply,
    body: Type.Object(
      {
        device_code: Type.String({
          minLength: 1,
          maxLength: 256,
          examples: ["2c7d4e6f8a9b0c1d2e3f4a5b6c7d8e9f2c7d4e6f8a9b0c1d2e3f4a5b6c7d8e9f"],
        }),
        tenant,
      },
      { additionalProperties: false },
    ),
    reply: tokenReply,
    fails: [
      ...["not_configured", "authorization_pending", "slow_down", "expired_token", "invalid_device_code"],
      ...["access_denied", "not_a_member", "org_access_restricted", "tenant_not_granted", "not_invited"],
      ...["tenant_ambiguous", "github_unavailable", "github_config_error", "storage_unavailable"],
    ] as Route["fails"],
    handle: async ({ body: { device_code, tenant = null }, exchange }, context) => {
      const signIn = signInOf(context, access);
      return tokenAnswer(await signIn.pollDevice(device_code, tenant, clientAddress(exchange, context.settings)));
    },
  });
}

function redirectRoutes(provider: Provider, access: Access): Route[] {
  const named = provider === "github" ? "GitHub" : "Google";
  const unavailable = provider === "github" ? "github_unavailable" : "google_unavailable";
  const returnTo = Type.String({
    maxLength: 2_048,
    description: "The page to return to, at an origin of SVC_LOGIN_RETURN_ORIGINS or of this server.",
    examples: ["https://app.example.com/login"],
  });
  const authorize = route({
    method: "GET",
    path: `/auth/${provider}/authorize`,
    summary: `Sends a browser to ${named} to sign in.`,
    tag,
    access,
    refusal: signInRefusalReply,
    query: Type.Object({ return_to: returnTo, tenant }, { additionalProperties: false }),
    reply: { status: 302, contentType: "", description: `The location is a page of ${named}.` },
    fails: ["not_configured", "return_to_not_allowed", "rate_limited", unavailable, "storage_unavailable"],
    handle: async ({ query: { return_to, tenant = null }, exchange }, context) => {
      const address = clientAddress(exchange, context.settings);
      const { location, cookie } = await signInOf(context, access).startRedirect(provider, return_to, tenant, address);
      return redirect(location, cookie, redirectMs, context);
    },
  });
  const callback = route({
    method: "GET",
    path: `/auth/${provider}/callback`,
    summary: `Ends a sign-in at ${named}, and sends the browser back to its page.`,
    tag,
    access,
    refusal: signInRefusalReply,
    query: Type.Object(
      {
        code: Type.Optional(Type.String({ maxLength: 2_048, examples: ["c0de"] })),
        state: Type.Optional(Type.String({ maxLength: 256, examples: ["5tate"] })),
        error: Type.Optional(Type.String({ maxLength: 256, examples: ["access_denied"] })),
      },
      // Providers add fields.
      { additionalProperties: true },
    ),
    reply: {
      status: 302,
      contentType: "",
      description:
        "The fragment of the location is svc_login=ok or svc_login_error=CODE, with login=ACCOUNT once known.",
    },
    fails: ["not_configured", "invalid_state", "storage_unavailable"],
    handle: async ({ query, exchange }, context) => {
      const cookie = signInCookie(exchange.head, context.settings);
      const { location, cookie: next } = await signInOf(context, access).endRedirect(provider, query, cookie);
      return redirect(location, next, exchangeMs, context);
    },
  });
  const exchange = route({
    method: "POST",
    path: `/auth/${provider}/exchange`,
    summary: `Returns the token of a sign-in at ${named} that has returned to its page, once.`,
    tag,
    access,
    refusal: signInRefusalReply,
    reply: tokenReply,
    fails: ["not_configured", "invalid_login", "storage_unavailable"],
    handle: async ({ exchange }, context) => {
      const { settings } = context;
      const cookie = signInCookie(exchange.head, settings);
      const answer = await signInOf(context, access).exchange(provider, cookie, clientAddress(exchange, settings));
      return tokenAnswer(answer, { "set-cookie": setSignInCookie(null, 0, settings) });
    },
  });
  return [authorize, callback, exchange];
}

function actions(access: Access): Route {
  return route({
    method: "POST",
    path: "/auth/github/actions",
    summary: "Returns a token for a workflow of GitHub Actions.",
    tag,
    access,
    refusal: signInRefusalReply,
    body: Type.Object(
      {
        id_token: Type.String({
          minLength: 1,
          maxLength: 16_384,
          description: "The id token of the workflow, for the audience SVC_GITHUB_OIDC_AUDIENCE.",
          examples: ["eyJhbGciOiJSUzI1NiJ9.eyJqdGkiOiIxIn0.c2lnbmF0dXJl"],
        }),
        tenant,
      },
      { additionalProperties: false },
    ),
    reply: { ...tokenReply, example: { github_login: "" } },
    fails: [
      ...["not_configured", "invalid_id_token", "workflow_not_granted", "tenant_not_granted", "tenant_ambiguous"],
      ...["github_unavailable", "storage_unavailable"],
    ] as Route["fails"],
    handle: async ({ body: { id_token, tenant = null }, exchange }, context) => {
      const signIn = signInOf(context, access);
      return tokenAnswer(await signIn.workflow(id_token, tenant, clientAddress(exchange, context.settings)));
    },
  });
}

function accessOf(isOpen: boolean): Access {
  return isOpen ? "public" : "authenticated";
}

/** Returns the service. Refuses with not_configured on a route that is not public. */
function signInOf({ signIn }: HttpContext, access: Access): SignIn {
  if (signIn === null || access !== "public") throw new SvcError("not_configured");
  return signIn;
}

function tokenAnswer(answer: TokenAnswer, headers: Readonly<Record<string, string>> = {}): Reply {
  return json(answer, 200, { ...noStore, ...headers });
}

function redirect(location: string, cookie: string | null, ms: number, { settings }: HttpContext): Reply {
  const headers = { location, "set-cookie": setSignInCookie(cookie, ms, settings), "referrer-policy": "no-referrer" };
  return { kind: "text", status: 302, contentType: "text/plain", body: "", headers: { ...headers, ...noStore } };
}
