package tidemill.spark

import java.net.{Socket, SocketException}

import py4j.{DefaultGatewayServerListener, Py4JServerConnection}

/**
 * Has long answers go out at once. py4j writes them in parts of 8 KiB, and TCP keeps a part back until the one before
 * has been acknowledged, which takes the other side 40 milliseconds.
 */
private[spark] object NoDelay extends DefaultGatewayServerListener {
  override def connectionStarted(connection: Py4JServerConnection): Unit = of(connection.getSocket)

  def of(socket: Socket): Socket = {
    try socket.setTcpNoDelay(true)
    catch { case _: SocketException => } // it is closed already
    socket
  }
}
