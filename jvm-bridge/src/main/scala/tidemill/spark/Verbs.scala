package tidemill.spark

import java.util.Locale

import scala.annotation.tailrec

/** Tells Tidemill's statements from all others by their first words. Runs on every statement of the session. */
private[spark] object Verbs {

  private val MaxWords = 5 // CREATE OR REPLACE INCREMENTAL VIEW

  /** Whether `text` is a statement of Tidemill. */
  def owned(text: String): Boolean = {
    val (words, rest) = leading(text, skip(text, 0), Vector.empty)
    words match {
      // Not only with VIEW behind it: Spark knows none of these, and Tidemill says what is missing.
      case Vector("CREATE", "INCREMENTAL", _*) => true
      case Vector("CREATE", "MATERIALIZED", "INCREMENTAL", _*) => true
      case Vector("CREATE", "OR", "REPLACE", "INCREMENTAL", _*) => true
      case Vector("CREATE", "OR", "REPLACE", "MATERIALIZED", "INCREMENTAL") => true
      case Vector("VERIFY" | "ALTER" | "DROP", "INCREMENTAL", _*) => true
      // Spark would take the rest of such a statement for a path, and do nothing.
      case Vector("REFRESH", "INCREMENTAL", _, _*) => true
      case Vector("VACUUM", "INCREMENTAL", "VIEW", _*) => true
      case Vector("EXPLAIN", "INCREMENTAL", _*) => true
      case Vector("SHOW", "INCREMENTAL", "VIEWS", _*) => true
      case Vector("SHOW", "REFRESHES", _*) => true
      case Vector("SHOW", "CREATE", "INCREMENTAL", "VIEW", _*) => true
      // Without a name behind it, Spark describes the column `view` of a table `incremental`.
      case Vector("DESCRIBE" | "DESC", "INCREMENTAL", "VIEW") => rest < text.length && text.charAt(rest) != ';'
      case Vector("DESCRIBE" | "DESC", "INCREMENTAL", "VIEW", _*) => true
      case _ => false
    }
  }

  /** The first words in upper case, and the position of what follows them. */
  @tailrec
  private def leading(text: String, from: Int, words: Vector[String]): (Vector[String], Int) = {
    var end = from
    while (end < text.length && (Character.isLetterOrDigit(text.charAt(end)) || text.charAt(end) == '_')) end += 1
    if (end == from) (words, from)
    else {
      val found = words :+ text.substring(from, end).toUpperCase(Locale.ROOT)
      val next = skip(text, end)
      if (found.size == MaxWords) (found, next) else leading(text, next, found)
    }
  }

  /** The first position at or after `from` that is neither white space nor in a comment. */
  @tailrec
  private def skip(text: String, from: Int): Int =
    if (from >= text.length) text.length
    else if (Character.isWhitespace(text.charAt(from))) skip(text, from + 1)
    else if (text.startsWith("--", from)) skip(text, lineEnd(text, from))
    else if (text.startsWith("/*", from)) skip(text, bracketEnd(text, from))
    else from

  /** As in Spark's grammar a backslash before the newline continues the comment. */
  @tailrec
  private def lineEnd(text: String, from: Int): Int = {
    val end = text.indexOf('\n', from)
    if (end < 0) text.length else if (text.charAt(end - 1) == '\\') lineEnd(text, end + 1) else end
  }

  /** Bracketed comments nest in Spark. */
  private def bracketEnd(text: String, from: Int): Int = {
    var at = from
    var depth = 0
    do {
      if (text.startsWith("/*", at)) { depth += 1; at += 2 }
      else if (text.startsWith("*/", at)) { depth -= 1; at += 2 }
      else at += 1
    } while (depth > 0 && at < text.length)
    at
  }
}
