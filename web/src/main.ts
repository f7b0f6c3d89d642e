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
mount(Shell, { target: document.getElementById("app")! });
