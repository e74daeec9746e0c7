#![doc = include_str!("../README.md")]

pub mod ai_platform;
