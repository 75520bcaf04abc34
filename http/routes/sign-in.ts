import { Type } from "../../bus/type.ts";
import { json } from "../exchange/reply.ts";
import { route } from "../route.ts";
import { systemTag } from "../tags.ts";

// The sign-in methods for people. This version supports no identity provider, so all of them are off.

const methods = route({
  method: "GET",
  path: "/auth/methods",
  summary: "The enabled ways to authenticate.",
  tag: systemTag,
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
  handle: (_request, { settings }) =>
    json({
      github_device: false,
      github_redirect: false,
      google_redirect: false,
      bearer_required: settings.authMode !== "none",
      github_signup: "off",
    }),
});

export const signInRoutes = [methods];
