package tidemill.spark

import java.net.{InetAddress, Socket}
import javax.net.SocketFactory

import py4j.{CallbackClient, Gateway, GatewayServer, Py4JPythonClient, PythonClient}

/** The JVM's way into Python, in py4j's client-server form. py4j's own loses the token when it learns Python's port. */
private[spark] class TokenClient(port: Int, address: InetAddress, token: String)
  extends PythonClient(
    null, null, port, address, CallbackClient.DEFAULT_MIN_CONNECTION_TIME,
    CallbackClient.DEFAULT_MIN_CONNECTION_TIME_UNIT, SocketFactory.getDefault, null, true, 0, token) {

  override protected def startClientSocket(): Socket = NoDelay.of(super.startClientSocket())

  override def copyWith(pythonAddress: InetAddress, pythonPort: Int): Py4JPythonClient =
    new TokenClient(pythonPort, pythonAddress, token).insteadOf(this)

  /** This client, at home where `other` is. */
  private[spark] def insteadOf(other: PythonClient): TokenClient = {
    setGateway(other.getGateway)
    setJavaServer(other.getJavaServer)
    Option(other.getPerThreadConnection).foreach(setPerThreadConnection)
    this
  }
}

/** PySpark's callback server asks for no token: every local process could call any method of any of its objects. */
object CallbackGuard {

  /**
   * Has all calls of PySpark's gateway to Python bring this token, wherever Python says that it listens. Its connections
   * wait for nothing from now on; see [[NoDelay]].
   */
  def install(server: GatewayServer, token: String): Unit = {
    val gateway = server.getGateway
    server.addListener(NoDelay)
    val guarded = gateway.getCallbackClient match {
      case old: PythonClient =>
        Option(old.getPerThreadConnection).foreach(known => NoDelay.of(known.getSocket))
        new TokenClient(old.getPort, old.getAddress, token).insteadOf(old)
      case old: CallbackClient => new CallbackClient(old.getPort, old.getAddress, token) // PYSPARK_PIN_THREAD=false
    }
    // py4j has a setter only for the port.
    val field = classOf[Gateway].getDeclaredField("cbClient")
    field.setAccessible(true)
    field.set(gateway, guarded)
  }
}
