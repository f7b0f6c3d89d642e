import { mount } from "svelte";
import "./page.css";
import { app } from "./state/app.svelte";
import "./state/feed.svelte";
import { exposeTestHooks } from "./state/hooks";
import { rights } from "./state/rights.svelte";
import Shell from "./shell/Shell.svelte";

// The first question leaves before anything is drawn.
app.start();
void rights.look();
exposeTestHooks();
// In a task of its own: reading the sources was one already, and what is typed meanwhile waits for both.
setTimeout(() => mount(Shell, { target: document.getElementById("app")! }));
