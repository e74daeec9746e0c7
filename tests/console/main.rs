//! The console in a browser, and what is made of the OpenAPI document with tools of JavaScript.
#![expect(clippy::unwrap_used, reason = "clippy exempts test functions only, not their helpers")]

mod administration;
mod api_clients;
mod browser;
mod compare;
mod console;
mod console_html;
mod console_scripts;
mod explore;
mod live_console;
mod models;
mod single_sign_on;
mod study_health;
mod study_pages;
mod workers;
