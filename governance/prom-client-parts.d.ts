// The package has type declarations for its index only.
declare module "prom-client/lib/cluster.js" {
  import { AggregatorRegistry } from "prom-client";

  export default AggregatorRegistry;
}
