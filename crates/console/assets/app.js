// The entry of every page.
import { useActions } from "./actions.js";
import { useKeys } from "./keys.js";
import { keepUpToDate } from "./live.js";
import { useThemeSwitch } from "./theme.js";
import { useTicks } from "./ticks.js";
import { showLocalTimes } from "./times.js";

showLocalTimes(document);
useThemeSwitch();
useKeys();
useActions();
useTicks();
keepUpToDate();
