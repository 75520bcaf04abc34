import { useEffect, useMemo, useState } from "react";
import { threadHook } from "./use-thread.js";

/** Follows a thread in a React component. */
export const useThread = threadHook({ useState, useEffect, useMemo });
