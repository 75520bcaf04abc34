// The parts of undici that are in use. Its index loads fetch, WebSocket, caches and mocks as well, in every thread.
declare module "undici/lib/dispatcher/agent.js" {
  import { Agent } from "undici";
  export default Agent;
}
declare module "undici/lib/core/connect.js" {
  import { buildConnector } from "undici";
  export default buildConnector;
}
declare module "undici/lib/core/errors.js" {
  import { errors } from "undici";
  export default errors;
}
