// The entry of every page.
import { useActions } from "./actions.js";
import { useChips } from "./chips.js";
import { useKeys } from "./keys.js";
import { keepUpToDate } from "./live.js";
import { useThemeSwitch } from "./theme.js";
import { useTicks } from "./ticks.js";
import { keepTimes, showLocalTimes } from "./times.js";

showLocalTimes(document);
useThemeSwitch();
useKeys();
useChips();
useActions();
useTicks();
keepUpToDate();
keepTimes();
// The page's own link is seen in a narrow window as well.
document.querySelector(".top [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
