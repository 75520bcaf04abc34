import assert from "node:assert/strict";
import { test } from "node:test";
import { refusalOfPlaces, type SharedPlaces } from "../../../host/cluster/shared-places.ts";
import type { HostRow } from "../../../storage/tables/hosts.ts";

const own: SharedPlaces = { objects: "o", workspaces: "w", checkouts: "c" };
const host = (places: Partial<SharedPlaces>) => ({ card: { places: { ...own, ...places } } }) as HostRow;

for (const [place, words] of [
  ["objects", /^the object store is not the one/],
  ["workspaces", /^SVC_WORKSPACE_ROOT is not the folder/],
  ["checkouts", /^SVC_REPO_CHECKOUT_ROOT is not the folder/],
] as const)
  test(`a host with other ${place} than one of the others does not join`, () => {
    assert.match(refusalOfPlaces(own, [host({}), host({ [place]: "another" })]) ?? "", words);
    assert.equal(refusalOfPlaces(own, [host({}), host({ [place]: "" })]), null, "a host that does not use the place");
    assert.equal(refusalOfPlaces({ ...own, [place]: "" }, [host({})]), null);
  });
