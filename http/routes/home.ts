import { Type } from "../../bus/type.ts";
import { json, text } from "../exchange/reply.ts";
import { isTls } from "../middleware/tls.ts";
import { homeOf, homePage } from "../pages/home.ts";
import { pageHeaders, pageType, wantsPage } from "../pages/html.ts";
import { route } from "../route.ts";
import { systemTag } from "../tags.ts";

/** A browser goes to the console where there is one. */
const toConsole = { location: "/console", vary: "Accept" };

const homeExample = homeOf("127.0.0.1:8080", { isTls: false, needsKey: false });

const home = route({
  method: "GET",
  path: "/",
  summary: "The name of the service, and its addresses.",
  tag: systemTag,
  access: "public",
  reply: {
    description: "For programs.",
    example: { ...homeExample },
    schema: Type.Object({
      service: Type.Literal("svc"),
      about: Type.String(),
      docs: Type.String(),
      openapi: Type.String(),
      health: Type.String(),
      ready: Type.String(),
      first_request: Type.String({ description: "A command line that runs a turn." }),
    }),
  },
  otherReplies: [
    {
      description: "For a browser, which names text/html in Accept, if SVC_CONSOLE is false.",
      contentType: "text/html",
      example: homePage(homeExample, false),
    },
    { status: 303, description: "For a browser: its way to the console.", contentType: "" },
  ],
  handle({ exchange: { head } }, { settings }) {
    const needsKey = settings.authMode !== "none";
    const home = homeOf(head.headers.host ?? "", { isTls: isTls(head, settings), needsKey });
    if (wantsPage(head.headers.accept)) {
      if (settings.console) return text("", pageType, { ...pageHeaders, ...toConsole }, 303);
      return text(homePage(home, needsKey), pageType, pageHeaders);
    }
    return json(home, 200, { vary: "Accept" });
  },
});

export const homeRoutes = [home];
