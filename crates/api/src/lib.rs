#![doc = include_str!("../README.md")]

pub mod agent;
pub mod ai_platform;
