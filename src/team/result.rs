//! The contract of a turn's result. All posts pass, or none is accepted.

use super::definition::{Definition, is_identifier};
use super::issue::{INVALID_TEAM, Issue};
use crate::value::Json;
use crate::value::bounds::MAX_CONTENT;
use crate::value::text::utf16_len;
use std::rc::Rc;

/// The most posts of one turn.
pub const MAX_POSTS: usize = 1024;

/// A post of an accepted result.
#[derive(Clone, Debug, PartialEq)]
pub struct Post {
    /// Position of its room.
    pub room: usize,
    /// What it says.
    pub text: Rc<str>,
    /// Positions of the members it mentions, as listed.
    pub mentions: Vec<usize>,
}

impl Definition {
    /// What is wrong first with a member's result, if anything is.
    #[must_use]
    pub fn validate_result(&self, member: usize, result: &Json) -> Option<Issue> {
        self.read_result(member, result).err()
    }

    /// The posts of a result that keeps the contract.
    pub fn read_result(&self, member: usize, result: &Json) -> Result<Vec<Post>, Issue> {
        if !matches!(result, Json::Object(_)) {
            return wrong("", "must be an object");
        }
        text(result, "summary", "")?;
        let Some(posts) = result.get("posts") else { return Ok(Vec::new()) };
        if self.communication.is_none() {
            return wrong("/posts", "cannot be there: the team has no communication");
        }
        let Json::Array(posts) = posts else { return wrong("/posts", "must be a list") };
        if posts.len() > MAX_POSTS {
            return wrong("/posts", &format!("has at most {MAX_POSTS} posts"));
        }
        posts.iter().enumerate().map(|(at, post)| self.read_post(member, post, &format!("/posts/{at}"))).collect()
    }

    fn read_post(&self, sender: usize, post: &Json, path: &str) -> Result<Post, Issue> {
        if !matches!(post, Json::Object(_)) {
            return wrong(path, "must be an object");
        }
        let Some(room) = post.get("roomId").and_then(Json::as_str).filter(|id| is_identifier(id)) else {
            return wrong(&format!("{path}/roomId"), "must be the id of a room");
        };
        let text = text(post, "text", path)?;
        let Some(room) = self.room(room).filter(|room| self.is_in(sender, *room)) else {
            return wrong(&format!("{path}/roomId"), "must be the id of a room the sender is in");
        };
        let Some(Json::Array(mentions)) = post.get("mentions") else {
            return wrong(&format!("{path}/mentions"), "must be a list");
        };
        let mention = |(at, mention): (usize, &Json)| match mention.as_str().and_then(|id| self.position(id)) {
            Some(member) if self.is_in(member, room) => Ok(member),
            _ => wrong(&format!("{path}/mentions/{at}"), "must be the id of a member of the room"),
        };
        let mentions = mentions.iter().enumerate().map(mention).collect::<Result<_, _>>()?;
        Ok(Post { room, text, mentions })
    }
}

fn text(value: &Json, key: &str, path: &str) -> Result<Rc<str>, Issue> {
    match value.get(key).and_then(Json::as_str).filter(|text| utf16_len(text) <= MAX_CONTENT) {
        Some(text) => Ok(text.into()),
        None => wrong(&format!("{path}/{key}"), &format!("must be a string of at most {MAX_CONTENT} UTF-16 units")),
    }
}

fn wrong<T>(path: &str, message: &str) -> Result<T, Issue> {
    Err(Issue::new(INVALID_TEAM, path, message))
}
