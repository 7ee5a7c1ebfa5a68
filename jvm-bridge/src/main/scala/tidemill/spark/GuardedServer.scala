package tidemill.spark

import java.io.{BufferedReader, FilterInputStream, InputStream, InputStreamReader, IOException}
import java.net.Socket
import java.nio.charset.StandardCharsets.UTF_8

import py4j.{ClientServerConnection, Gateway, JavaServer, PythonClient, Py4JServerConnection}

/**
 * py4j's server on a free port of the loopback, which reads no more than a few bytes of who has not brought the token.
 * py4j's own keeps the first line of a connection in memory, however long it is.
 */
private[spark] class GuardedServer(door: AnyRef, client: PythonClient, token: String)
  extends JavaServer(door, 0, 0, 0, null, client, token) {

  override protected def createConnection(gateway: Gateway, socket: Socket): Py4JServerConnection = {
    val connection = new GuardedConnection(gateway, NoDelay.of(socket), client, this, token)
    connection.startServerConnection()
    connection
  }
}

private class GuardedConnection(
    gateway: Gateway, socket: Socket, client: PythonClient, server: JavaServer, token: String)
  extends ClientServerConnection(gateway, socket, server.getCustomCommands, client, server, 0, token) {
  reader = new BufferedReader(new InputStreamReader(new ShortGreeting(socket.getInputStream), UTF_8))
}

/** A connection whose first two lines, a word and the token, are short. What comes behind them is not looked at. */
private[spark] class ShortGreeting(in: InputStream) extends FilterInputStream(in) {
  private var lines = 0
  private var bytes = 0

  override def read(): Int = {
    val one = new Array[Byte](1)
    if (read(one, 0, 1) < 0) -1 else one(0) & 0xff
  }

  override def read(buffer: Array[Byte], offset: Int, length: Int): Int = {
    val count = super.read(buffer, offset, length)
    var at = offset
    while (lines < ShortGreeting.Lines && at < offset + count) {
      if (buffer(at) == '\n') lines += 1
      bytes += 1
      at += 1
    }
    if (lines < ShortGreeting.Lines && bytes > ShortGreeting.Most) throw new IOException("no token in the first lines")
    count
  }
}

private[spark] object ShortGreeting {
  private val Lines = 2
  private val Most = 1024
}
